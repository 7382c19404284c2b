"""The words of orders to a model, for the screening.

A pattern sees text without Markdown, in which any blanks are one space; letters of either case.
Every gap is bounded, so that no text makes the search slow. A pattern asks for the words of an
order to the model, not merely for words about models, rules or users.
"""

from __future__ import annotations

_GAP = r"(?:\S{1,40} )"
_DROP = (
    r"(?:ignore|disregard|forget|override|bypass|discard|abandon|overrule|stop following|stop"
    r" obeying"
    r"|(?:do not|don t|never|no longer) (?:follow|obey|listen to|adhere to|comply with))"
)
_ORDERS = (
    r"(?:instruction|prompt|guideline|direction|directive|rule|order|command|policie|constraint)s?"
)
_EARLIER = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|existing|current|original|initial|former"
    r"|old|system|safety|security|developer|hidden)"
)
_GIVEN = (
    r"(?:you (?:were|have been|had been|are) (?:given|told|following|taught)|you(?: have)? received"
    r"|given to you|in (?:this|the|your) (?:conversation|chat|context|session|prompt)"
    r"|from (?:your|the) (?:developers?|creators?|operators?|system|user))\b"
)
# "Ignore the previous instructions if you use Windows", "… on parking": told what they are about.
_ABOUT = (
    r"(?! (?:if|when|unless|where|about|on|in|for|from|regarding|concerning|of|at|under|below|with"
    r"|that|which|until|as|to)\b)"
)
_MODEL = (
    r"(?:ai|llm|language model|large language model|chat ?bot|ai assistant|ai agent|ai model|gpt"
    r"|claude"
    r"|gemini|chatgpt|copilot|hermes)s?"
)
_SECRETS = (
    r"(?:api keys?|passwords?|credentials?|secrets?|access tokens?|auth tokens?|session tokens?"
    r"|tokens?"
    r"|private keys?|ssh keys?|environment variables?|cookies|seed phrase"
    r"|(?:conversation|chat|message) (?:history|log|transcript)|\S{0,20}\.env|\S{0,40}id_rsa)"
)
_TELL = r"(?:tell|telling|inform|informing|alert|alerting|notify|notifying|asking|warning)"
PRIVATE = (
    r"(?:\.env\b|\.ssh/|id_(?:rsa|ed25519|ecdsa)(?!\.pub)|\.aws/credentials|\.netrc|\.pgpass"
    r"|\.npmrc"
    r"|/etc/(?:passwd|shadow)|auth\.json|\.kube/config|\.git-credentials|mcp\.json)"
)
_OTHER_LANGUAGES = (
    r"\b(?:ignorier\w{0,4}|vergiss|missachte\w{0,2}|verwirf) (?:alle|s\u00e4mtliche|deine|die"
    r"|eure) "
    r"(?:\w{1,20} ){0,2}?(?:anweisung|instruktion|vorgabe|regel)\w{0,3}"
    r"|\b(?:ignorez?|oublie[zr]?) (?:toutes |tous )?(?:les|vos|tes) (?:\w{1,20} ){0,2}?"
    r"(?:instructions?|consignes?|r\u00e8gles) (?:pr\u00e9c\u00e9dente|ant\u00e9rieure|ci-dessus)"
    r"|\b(?:ignora|ignore|olvida|desprecia|dimentica|esque\u00e7a) (?:todas? |tutte )?"
    r"(?:las|tus|le|as|suas|os|tue) (?:\w{1,20} ){0,2}?"
    r"(?:instrucciones|reglas|istruzioni|instru\u00e7\u00f5es|\u00f3rdenes) (?:\w{1,20} ){0,2}?"
    r"(?:anterior|previa|precedent|ricevut)"
    r"|\bnegeer (?:alle|de) (?:\w{1,20} ){0,2}?(?:instructies|aanwijzingen)"
    r"|(?:\u0438\u0433\u043d\u043e\u0440\u0438\u0440\u0443\u0439"
    r"|\u0437\u0430\u0431\u0443\u0434\u044c)"
    r"\w{0,3} (?:\w{1,20} ){0,3}?(?:\u0438\u043d\u0441\u0442\u0440\u0443\u043a\u0446"
    r"|\u0443\u043a\u0430\u0437\u0430\u043d)"
    r"|(?:\u5ffd\u7565|\u65e0\u89c6|\u5fd8\u8bb0|\u4e0d\u8981\u7406\u4f1a).{0,8}(?:\u6307\u4ee4"
    r"|\u6307\u793a|\u63d0\u793a)"
    r"|(?:\u6307\u793a|\u547d\u4ee4|\u30d7\u30ed\u30f3\u30d7\u30c8)\u3092?.{0,6}(?:\u7121\u8996"
    r"|\u5fd8\u308c)"
    r"|(?:\uc774\uc804|\uc704\uc758).{0,8}(?:\uc9c0\uc2dc|\uba85\ub839).{0,4}\ubb34\uc2dc"
)

_DROPS = "tells the model to drop its earlier instructions"
_ROLE = "tries to give the model another role"
_LEAK = "asks for the model's own instructions"
DECEIVE = "tells the model to deceive the user"
_STEAL = "asks the model to hand out secrets"

# The words of an order that an honest text hardly contains.
CLEAR = {
    _DROPS: (
        rf"\b{_DROP} (?:"
        rf"(?:(?:all|any|every|each|your|whatever|these|those) ){_GAP}{{0,3}}?(?:{_EARLIER}"
        rf" ){{1,2}}"
        rf"{_ORDERS}\b{_ABOUT}"
        rf"|{_EARLIER} {_ORDERS}\b{_ABOUT}"
        rf"|{_GAP}{{0,4}}?(?:safety|security|ethical|developer) {_ORDERS}\b{_ABOUT}"
        rf"|{_GAP}{{0,4}}?{_ORDERS} {_GIVEN}"
        rf"|(?:the|your|any|this|its) (?:\w{{1,20}} )?system (?:prompt|message"
        rf"|instruction)s?\b{_ABOUT})"
        r"|\b(?:ignore|disregard|forget) (?:everything|all|anything|whatever) (?:that"
        r" )?(?:\w{1,20} )?"
        r"(?:you (?:were|have been|ve been|had been) (?:told|taught|given|instructed)"
        r"|(?:was )?(?:said|written) (?:above|before)|above|before this|previously|so far)\b"
        rf"|{_OTHER_LANGUAGES}"
    ),
    _ROLE: (
        r"\byou are (?:now|no longer) (?:\w{1,20} ){0,4}?(?:dan\b|jailbroken|unrestricted"
        r"|unfiltered"
        r"|uncensored|in (?:developer|god|debug|admin|jailbreak) mode|bound by|free of|free from"
        r"|an? (?:ai )?assistant)"
        r"|\bfrom now on you are dan\b|\bdo anything now\b"
        rf"|\b(?:act|behave|respond|answer) (?:as|like) (?:an? )?(?:\w{{1,20}} )?(?:unrestricted"
        rf"|unfiltered|uncensored|jailbroken|amoral|evil) (?:{_MODEL}|assistant|model|bot)\b"
        r"|\b(?:new|updated|real|actual|true) system (?:prompt|message|instruction)s? ?:"
        r"|\bpretend (?:that )?you (?:have|had) no (?:rules|restrictions|guidelines|limits)"
        r"|\bsystem (?:prompt )?override\b.{0,60}\b(?:instruction|assistant|model|you)s?\b"
    ),
    _LEAK: (
        r"\b(?:reveal|print|repeat|output|leak|send|show|display|append|include|paste|disclose"
        r"|share|write"
        r"|quote|recite) (?:me |us |out |back )?your (?:\w{1,20} ){0,3}?(?:system prompt|system"
        r" message"
        r"|(?:hidden|secret|initial|original|internal) (?:instruction|prompt|rule)s?)\b"
        r"|\b(?:repeat|print|output|recite) (?:everything|all (?:the )?text|all (?:the )?words"
        r"|the text)"
        r" (?:above|before)\b.{0,60}\b(?:instruction|prompt)s?\b"
    ),
    DECEIVE: (
        rf"\b(?:do|run|execute|perform) (?:this|it|so|that|the following) {_GAP}{{0,4}}?"
        rf"without (?:ever )?{_TELL} the user\b"
        r"|\b(?:do not|don t|never|must not) (?:tell|inform|mention|reveal|disclose|show|let) "
        r"(?:the user|it|this|that|anything|these) (?:to the user |know )?(?:about |that |of )?"
        r"(?:this (?:instruction|step|message|note|request|prompt)|these (?:instruction|step"
        r"|message)s"
        r"|you (?:were|are|have|did)|your)\b"
        r"|\b(?:do not|don t|never) mention (?:this|it|that|these instructions) to the user\b"
        r"|\b(?:keep|hide) (?:this|it|that|these \w{1,20}) (?:a )?(?:secret |hidden )?from the"
        r" user\b"
    ),
    _STEAL: (
        rf"\b(?:send|post|upload|forward|e-?mail|exfiltrate|transmit|leak|submit) {_GAP}{{0,4}}?"
        rf"(?:the|this|that|your) user s {_GAP}{{0,3}}?{_SECRETS}"
        rf"|\b(?:send|post|upload|forward|e-?mail|exfiltrate|transmit|leak) (?:the |this |your )?"
        rf"(?:\w{{1,20}} )?(?:conversation|chat|message) (?:history|log|transcript) to"
        rf" \S{{0,30}}(?:@|://)"
        rf"|\b(?:read|open|cat|load) \S{{0,60}}?{PRIVATE}.{{0,80}}\b(?:pass|include|put|send"
        rf"|append|attach)"
        r" (?:its|the|their|it|them)\b"
        rf"|\b(?:include|append|attach|paste|put) the contents? of"
        rf" {_GAP}{{0,2}}?\S{{0,60}}?{PRIVATE}"
        rf"{_GAP}{{0,4}}?.{{0,40}}\b(?:your|the) (?:reply|answer|response|message|summary)"
        rf"|://\S{{1,80}} followed by (?:the|your) (?:user s )?{_GAP}{{0,3}}?{_SECRETS}"
    ),
}

# Signs that honest texts have too. Two of different kinds nearby count, one of them an act.
_ADDRESS, VOICE = "address", "voice"
FAINT = {
    _ADDRESS: (
        rf"\b(?:to|for) (?:all |any |every |the |an? ){_MODEL}\b"
        rf"|\b(?:dear|attention|hey|if you are|you are) (?:all |any |every |the |an? )?{_MODEL}\b"
        rf"|\b{_MODEL} (?:reading|processing|summari[sz]ing|parsing|instructions?\b|must|should)"
        rf"|\b(?:{_MODEL}|assistant) ?:|\b(?:instructions?|message|note) (?:for|to) the"
        rf" (?:assistant|model)\b"
    ),
    VOICE: (
        r"\b(?:system|admin|developer|priority|security) (?:override|notice|alert|update|message)"
        r" ?[:!\]]"
        r"|\bnew instructions? ?(?::|for)|\bend of (?:document|page|file|message|input|email)\b"
        r"|</?system>|</?(?:instructions|admin|important)>|\byour (?:real|new|actual|true)"
        r" (?:task|goal|job)"
    ),
    _DROPS: (
        rf"\b{_DROP} (?:them|this|that|the|those|these|my|its|our|\w{{1,20}})"
        rf" {_GAP}{{0,3}}?{_ORDERS}\b"
        rf"|\b{_ORDERS} {_GAP}{{0,2}}?(?:are|is) (?:now )?(?:void|invalid|obsolete|cancell?ed"
        rf"|disabled)"
        r"|\b(?:obey|do what) (?:this|the) (?:page|text|document|file|site)\b"
    ),
    DECEIVE: (
        rf"\bwithout (?:ever )?{_TELL} (?:the user|them|anyone)\b|\bsilently\b|\bsecretly\b"
        r"|\b(?:do not|don t|never) (?:tell|inform|mention|alert|notify|reveal|disclose)\b"
        r"|\bwithout (?:asking|confirmation|approval)\b"
    ),
    _STEAL: (
        rf"\b(?:send|post|upload|forward|e-?mail|exfiltrate|transmit|submit|copy)"
        rf" {_GAP}{{0,6}}?{_SECRETS} "
        rf"{_GAP}{{0,6}}?(?:to|at) |\b(?:transfer|upload|send) all (?:\w{{1,20}} )?files\b"
    ),
    "runs commands": (
        r"\b(?:run|execute|paste|type)\b.{0,60}(?:curl|wget|bash|sh|powershell|base64|rm -rf)\b"
        r"|\bexecute any (?:command|code)|\bcall the \S{1,40} tool\b"
    ),
    "steers the answer": (
        r"\b(?:recommend|hire|rate|praise|endorse|rank) (?:this|the|it|our)\b|\bpositive review\b"
        r"|\btell the user (?:to|that)\b|\b(?:reply|respond|answer) only (?:with|in)\b"
        r"|\balways (?:recommend|say|answer|respond)\b"
    ),
}
ACTS = frozenset(FAINT) - {_ADDRESS, VOICE}
