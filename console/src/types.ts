// The replies of the service, as the TypeScript client has them.
export type * from "../../clients/typescript/src/replies";
