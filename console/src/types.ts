// The types of the service's replies, from the TypeScript client.
export type * from "../../clients/typescript/src/replies";
