"""What the client, the server, the engine and the graph all need. It imports none of them."""
