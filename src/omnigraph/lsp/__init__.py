"""Help for editors: a language server for schemas and queries.

`serving` speaks the protocol and alone needs the package for it; everything else answers questions
about texts and knows no protocol.
"""
