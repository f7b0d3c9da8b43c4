"""What rows often say: each row is compressed as if it came after this (`graph.store.rows`).

It makes small rows smaller and means nothing. Another text here cannot read what was written.
"""

from typing import Final

WORDS: Final = (
    rb'{"key":"","created_at":1795,"updated_at":1795,"revision":1,"branches":1,"head":0,'
    rb'"settings":{},"spent":[]}'
    rb'{"number":0,"parent":-1,"fork_messages":0,"fork_events":0,"messages":2,"events":3,'
    rb'"turns":1,"results":1,"tokens":1,"digest":"","first_digest":""}'
    rb'{"turn":1,"messages":1,"at":1795,"results":1,"budget":6000,"policy":"contextrender",'
    rb'"parameters":{},"live":false,"keep_tools":[],"keep":[],"tokens":[1,2],"shown":[0,1],'
    rb'"replaced":[],"sent":"","model":"","client":"","embedded":0,"billed":[],"whole_bill":[],'
    rb'"passed_on":{}}'
    rb'"budget":24000,"policy":"contextrender_frozen","parameters":{},"live":true,"keep_tools":[],'
    rb'{"number":1,"position":1,"turn":1,"timestamp":1795,"tokens":1,"text":"'
    rb'","shell":"{\"role\": \"tool\", \"tool_call_id\": \"\", \"content\": \"'
    rb'\\u0000held apart\"}","digest":"","call_id":"","name":"","embedding_model":"wordllama",'
    rb'"":{"bytes":{"embedding":1024}}}'
    rb'{"number":1,"position":1,"turn":1,"timestamp":1795,"tokens":1,"text":"","shell":"{'
    rb"\"role\": \"assistant\", \"content\": \"\\u0000held apart\", \"content\": null, "
    rb'\"tool_calls\": \"\\u0000held apart\"}","digest":"","role":"assistant"}'
    rb'{"number":1,"position":1,"turn":1,"timestamp":1795,"tokens":1,"text":"{\"","shell":"{'
    rb"\"id\": \"call_1\", \"type\": \"function\", \"function\": \"{\\\"name\\\": \\\"\\\", "
    rb'\\\"arguments\\\": \\\"\\\\u0000held apart\\\"}\"}","digest":"","call_id":"call_1","name":"'
)
