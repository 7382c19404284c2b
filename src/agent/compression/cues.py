"""Forms of words that show what a sentence does: wish, leave open, finish, change.

They are signs, not proofs: the caller weighs them. English in the main, with the
commonest words of a few other languages; numbers and names are recognised in any (see `words`).
"""

from __future__ import annotations

import re


def _any_of(*phrases: str, unspaced: str = "") -> re.Pattern[str]:
    """A pattern for whole words and phrases, and for `unspaced` ones anywhere in a text."""
    words = rf"\b(?:{'|'.join(phrases)})\b"
    return re.compile(f"{words}|{unspaced}" if unspaced else words, re.IGNORECASE)


WISH = _any_of(
    r"use|using|switch|change[ds]?|replace|rename|move[ds]?|prefer|wants?|must|should|shall",
    r"need(?:s|ed)? to|always|never|don'?t|do not|no longer|not any ?more|instead|rather",
    r"from now on|let'?s|let us|decided?|decision|agreed?|settled?|go(?:ing)? with|stick with",
    r"stay with|keep|make sure|remember|note that|important|set|call it|limit|avoid|only",
    r"allowed?|require[ds]?|we'll|i'll|we will|plan(?:ned)?|chose|choose|pick(?:ed)?",
    r"immer|niemals|nie|bitte|statt|nicht mehr|toujours|jamais|plutôt|désormais|siempre|nunca",
    unspaced="总是|不要|必须|记住|改用|使用|必ず|使って|覚えて",
)
"""The speaker wants something, or settles how it shall be."""

OPEN = _any_of(
    r"to-?do|fixme|still (?:need|have|has|open|missing|to|must)|remind|pending|not yet",
    r"follow[- ]?up|remain(?:s|ing)|open (?:point|question|task|issue|item)|don'?t forget|later",
    r"outstanding|blocked|some(?:one|body) (?:has|needs|must|should)|needs? (?:to be|doing|fixing)",
    r"on (?:my|our|your|the) (?:list|plate)|before (?:we|the)|waiting (?:for|on)|owe[sd]?",
    r"have(?:n't| not)|has(?:n't| not)|unfinished|unresolved|unanswered|offen|noch zu|à faire",
    unspaced="待办|还需要|まだ",
)
"""Something is still to be done."""

DONE = _any_of(
    r"done|finished|completed?|fixed|resolved|merged|closed|shipped|solved|sorted|settled",
    r"cancel(?:led|ed)?|scrap(?:ped)?|drop(?:ped)?|forget about|never ?mind|no longer need(?:ed)?",
    r"off (?:my|our|your|the) (?:list|plate)|taken care of|out of the way|cross(?:ed)? off|landed",
    r"deployed|behind us|erledigt|fertig|terminé|hecho",
    unspaced="已完成|完了",
)
"""Something is finished, or given up."""

CHANGE = _any_of(
    r"switch(?:ed|ing)?|chang(?:e|ed|es|ing)|instead|no longer|not any ?more|on second thought",
    r"replac(?:e|es|ed|ing)|updat(?:e|ed|ing)|mov(?:e|ed|ing)|renam(?:e|ed|ing)|scrap(?:ped)?",
    r"correct(?:ion|ed)|reconsider(?:ed)?|overrul(?:e|ed)|revis(?:e|ed)|forget|after all|wrong",
    r"statt|nicht mehr|plus jamais|ya no",
    unspaced="改用|改为|不再|変更",
)
"""What is said replaces what was said before."""

PERHAPS_CHANGE = _any_of(
    r"now|new|actually|rather|turns? out|again|from now on|becomes?|won'?t|jetzt|désormais|ahora"
)
"""What is said may replace what was said before."""

NEGATION = _any_of(r"no|not|never|won'?t|don'?t|doesn'?t|needn'?t|without|already|kein|nicht|pas")

_BEFORE_A_VALUE = r"\s+(?:(?:the|a|at|on|in|to|be|using|by|for)\s+){0,2}([^\s,;]+)"
OUTDATED = re.compile(
    r"\b(?:instead of|rather than|no longer|replac(?:e|es|ed|ing)|drop(?:ped)?|scrap|away from"
    r"|forget about|statt)" + _BEFORE_A_VALUE,
    re.IGNORECASE,
)
"""The value that is named right behind such words holds no longer."""

PERHAPS_OUTDATED = re.compile(r"\b(?:not|from|was|were|over|than)" + _BEFORE_A_VALUE, re.IGNORECASE)
"""The same, if the sentence speaks of a change."""

OPENING = re.compile(
    r"^(?:(?:ok(?:ay)?|so|well|also|and|but|oh|hey|hi|right|great|thanks|by the way|btw|yes|no"
    r"|one more thing|anyway|hm+)\s*[,:!.–-]+\s*|(?:please|also|and|but|so)\s+)+",
    re.IGNORECASE,
)
"""What a sentence can do without at its beginning."""
