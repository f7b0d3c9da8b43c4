"""Sessions as rows: their ids, locks and limits, and what of them is damaged."""
