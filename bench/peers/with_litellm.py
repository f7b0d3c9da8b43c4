"""LiteLLM's `compress` with BM25, because an embedding model would have to be called."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from litellm.compression import compress


def make(_):
    def shorten(messages, tokens):
        compressed = compress(
            messages, model="gpt-4o", compression_trigger=tokens, compression_target=tokens
        )
        return compressed["messages"]

    return shorten
