"""What policies show of recorded runs, what that costs, and how sure the differences are."""
