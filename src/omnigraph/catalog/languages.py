"""Languages a text property may be declared to be in, which decide what its words are."""

from __future__ import annotations

ENGLISH = "english"
"""The language of a property that declares none."""
NO_LANGUAGE = "none"
"""For codes and names: words are compared as they are spelled."""

STEMMED = (
    *("arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english"),
    *("esperanto", "estonian", "finnish", "french", "german", "greek", "hindi", "hungarian"),
    *("indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "persian"),
    *("polish", "portuguese", "romanian", "russian", "serbian", "sesotho", "spanish"),
    *("swedish", "tamil", "turkish", "yiddish"),
)
"""Languages whose words are reduced to stems."""
LANGUAGES = (*STEMMED, NO_LANGUAGE)
