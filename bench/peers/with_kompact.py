"""kompact's transforms, as its proxy applies them to a chat completions request."""

from kompact.config import KompactConfig
from kompact.parser.messages import parse_request, serialize_request
from kompact.transforms.pipeline import run
from kompact.types import Provider


def make(_):
    def shorten(messages, tokens):
        plain = [{key: value for key, value in m.items() if value is not None} for m in messages]
        request = parse_request({"model": "gpt-4o", "messages": plain}, Provider.OPENAI)
        return serialize_request(run(request, KompactConfig()).request)["messages"]

    return shorten
