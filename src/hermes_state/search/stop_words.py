"""Words of a question that say nothing of what it is about, by language.

They are left out of questions only; the index has them, so that phrases and operators mean what
they say. Which list a question has most words of also tells its language.
"""

from __future__ import annotations

from collections.abc import Sequence

from .folding import words

_LISTS = {
    "en": """
a about after again all also am an and any anyone anything are as at be because been before being
but by can cannot could did didn do does doesn doing don done during each either else ever every
everything few for from get gets getting go goes going gone got had has hasn have haven having he
her here hers him his how i if in into is isn it its itself just know last let like ll make many
may maybe me might mine more most much must my myself need no nor not now of off on once one only
or other our ours out over own per please re really remember s said same say says she should
shouldn so some somebody someone something still such t talk talked tell than that the their
theirs them then there these they thing things this those through to told too until up us use used
ve very want wanted wants was wasn way we were weren what whatever when where whether which while
who whom whose why will with won would wouldn yes yet you your yours kind sort concerning
regarding ago since m d
""",
    "de": """
aber alle allem allen aller alles als also am an andere auch auf aus bei beim bin bis bist da
dabei dafur dagegen daher damit danach dann daran darauf darum das dass davon dazu dein deine dem
den denn der des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein
eine einem einen einer eines einmal er es etwas euch eure fur gab ganz gegen gehabt gehen geht
gesagt gibt ging habe haben habt hat hatte hatten hattest hier hin ich ihm ihn ihnen ihr ihre
ihrem ihren im immer in ins irgendwo ist ja jede jedem jeden jeder jedes jemand jetzt kann kannst
kein keine konnen konnte konnten los man mal mehr mein meine meinem meinen meiner mich mir mit
muss mussen nach nein nicht nichts noch nun nur ob oder ohne sagte schon sehr sein seine seinem
seinen seiner seit sich sie sind so soll sollen sollte sollten sonst uber um und uns unser unsere
unserem unseren viel viele vom von vor wann war waren warum was weil weiss welche welchem welchen
welcher welches wem wen wenn wer werde werden wie wieder wieso will wir wird wo woher wohin wollen
wollte wurde wurden zu zum zur zwischen
""",
    "fr": """
a ai alors apres au aucun aussi autre aux avait avant avec avez avoir avons c ca car ce cela ces
cet cette ceux chez combien comme comment d dans de depuis des dit donc dont du elle elles en
encore est et etaient etait etes etre eu fait faire faut il ils j je l la laquelle le lequel les
leur leurs lui m ma mais me meme mes moi moins mon n ne nos notre nous on ont ou par parce parle
pas pendant peu peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans
se sera ses si sien son sont sous sur t ta te tes toi ton toujours tous tout toute toutes tres tu
un une va vers voir vos votre vous y
""",
    "es": """
a al algo alguien algun alguna ante antes aquel aqui asi aun aunque cada como con contra cual
cuales cuando cuanta cuanto cuantos de del desde dice dijo donde dos durante e el ella ellas ellos
en entre era eran eres es esa esas ese eso esos esta estaba estado estamos estan estar estas este
esto estos estoy fue fueron fui ha haber habia hace hacen hacer hacia han has hasta hay he hemos
hizo la las le les lo los mas me mi mia mis mucho muchos muy nada ni no nos nosotros nuestra
nuestro o os otra otro para pero poco por porque pues que quien quienes se sea ser si sido sin
sobre solo son soy su sus tal tambien tan tanto te tener tengo ti tiene tienen todo todos tu tus
un una uno unos va vamos van ver y ya yo
""",
}

BY_LANGUAGE = {language: frozenset(words(text)) for language, text in _LISTS.items()}
STOP_WORDS = frozenset().union(*BY_LANGUAGE.values())

_UNSPACED_TEXT = """
为什么 什么时候 什么样 什么 怎么样 怎么 怎样 哪里 哪儿 哪个 哪些 哪 谁的 谁 多少 多久 几点 几个
我们 你们 他们 她们 它们 咱们 我 你 他 她 它 的 了 吗 呢 吧 啊 在 是 有 和 与 跟 把 被 对 到 从 给
这个 那个 这 那 也 都 就 还 很 请 说过 说 要 会 能 上次 之前 最后 必须 どのくらい いつから
いつまで いつ どこ どれ どの どう どんな なぜ なに 何時 何故 何 誰 ですか でした です ました
ますか ます でしょうか ません
"""
UNSPACED = sorted({*_UNSPACED_TEXT.split()}, key=len, reverse=True)
"""The same for scripts without spaces, longer ones first."""


def languages_of(typed: Sequence[str]) -> tuple[str, ...]:
    """The languages that a question may be in, judged by its small words; all if there are none."""
    counts = {language: len(listed.intersection(typed)) for language, listed in BY_LANGUAGE.items()}
    most = max(counts.values())
    if not most:
        return tuple(counts)
    return tuple(language for language, count in counts.items() if 2 * count > most)
