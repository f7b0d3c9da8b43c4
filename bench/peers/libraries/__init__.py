"""One module a library, imported only in that library's environment.

`make(variant)` gives a function of (OpenAI chat messages, tokens) that answers with shorter ones,
or with {"messages", "text"} where the library makes one text of them.
Tokens are counted as ContextRender does wherever the library lets a caller count.
"""
