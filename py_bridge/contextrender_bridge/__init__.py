"""ContextRender for Python: the client, the server and their command line."""

from contextrender_bridge.credentials import Credentials, NoCredentials, load_credentials

__all__ = ["Credentials", "NoCredentials", "load_credentials"]
