// What asking with other settings changes in a call.

export interface Difference {
  added: number[];
  removed: number[];
  after: number;
}
