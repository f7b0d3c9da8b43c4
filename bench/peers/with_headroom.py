"""headroom's `compress`, without its text model, which it would download at first use."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["HEADROOM_TELEMETRY"] = "off"

from headroom import compress


def make(_):
    def shorten(messages, tokens):
        compressed = compress(
            messages, model="gpt-4o", model_limit=tokens, kompress_model="disabled"
        )
        return compressed.messages

    return shorten
