// How much of a call is asked for: some of its results, in an order, and its last messages.

export interface Page {
  sort: string;
  down: boolean;
  rows: number;
  window: number;
}

export const FIRST: Page = { sort: "order", down: false, rows: 120, window: 150 };
export const MORE = 500;
