"""Recall for the model: a tool that the proxy offers and answers, unseen by the agent."""
