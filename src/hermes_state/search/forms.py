"""Other forms of a word: went and going for go, houses for house.

The index has words as they were written. A question's word is looked up with the forms it may have,
made from its stem with the endings of its language; those that the vocabulary knows are searched
for. So the index stays as small as it is, and phrases stay exact. Irregular forms are a table.
"""

from __future__ import annotations

import functools

_MOST_FORMS = 160
_SHORTEST_STEM = 3

_IRREGULAR = """
be am is are was were been being|have has had having|do does did done doing
go goes went gone going|say says said saying|get gets got gotten getting|make makes made making
know knows knew known knowing|think thinks thought thoughts thinking
take takes took taken taking|see sees saw seen seeing sight|come comes came coming
give gives gave given giving gift gifts|find finds found finding findings
tell tells told telling|leave leaves left leaving|feel feels felt feeling feelings
bring brings brought bringing|begin begins began begun beginning|keep keeps kept keeping
hold holds held holding|write writes wrote written writing writer|stand stands stood standing
hear hears heard hearing|mean means meant meaning|meet meets met meeting meetings
run runs ran running runner|pay pays paid paying payment payments|sit sits sat sitting
speak speaks spoke spoken speaking speech|lead leads led leading leader
read reads reading reader|grow grows grew grown growing growth|lose loses lost losing loss
fall falls fell fallen falling|send sends sent sending|build builds built building buildings
spend spends spent spending|understand understands understood understanding
draw draws drew drawn drawing drawings|break breaks broke broken breaking
buy buys bought buying buyer|sell sells sold selling sale sales
drive drives drove driven driving driver|wear wears wore worn wearing
choose chooses chose chosen choosing choice choices|eat eats ate eaten eating
drink drinks drank drunk drinking|teach teaches taught teaching teacher
catch catches caught catching|sleep sleeps slept sleeping asleep
fly flies flew flown flying flight flights|forget forgets forgot forgotten forgetting
ride rides rode ridden riding|rise rises rose risen rising
sing sings sang sung singing song songs|swim swims swam swum swimming
throw throws threw thrown throwing|steal steals stole stolen stealing theft
win wins won winning winner|wake wakes woke woken waking|bite bites bit bitten biting
blow blows blew blown blowing|dig digs dug digging|fight fights fought fighting
freeze freezes froze frozen freezing|hide hides hid hidden hiding
shake shakes shook shaken shaking|shoot shoots shot shooting|shut shuts shutting
sink sinks sank sunk sinking|stick sticks stuck|strike strikes struck striking
swear swears swore sworn|tear tears tore torn tearing|feed feeds fed feeding
lend lends lent lending loan|bend bends bent|deal deals dealt dealing
dream dreams dreamt dreamed dreaming|lay lays laid laying|lie lies lay lain lying
light lights lit lighting|seek seeks sought seeking|shine shines shone shining
slide slides slid sliding|spin spins spun spinning|spread spreads spreading
weave weaves wove woven weaving|decide decides decided deciding decision decisions
receive receives received receiving receipt|marry marries married marrying marriage marriages
move moves moved moving mover removal|advise advises advised advising advice
die dies died dying death dead|live lives lived living life|child children kid kids|man men
woman women|person people persons|foot feet|tooth teeth|mouse mice|goose geese|knife knives
wife wives|leaf leaves|shelf shelves|half halves|wolf wolves|thief thieves|good better best
bad worse worst|grandmother grandma granny grandmothers|grandfather grandpa grandad
mother mum mom mothers|father dad daddy fathers|brother brothers|bike bikes bicycle bicycles
phone phones telephone|photo photos photograph photographs picture
flat flats apartment apartments|holiday holidays vacation|doctor doctors dr
sein bin ist sind war waren gewesen|haben habe hat hatte gehabt|gehen geht ging gingen gegangen
ziehen zieht zog zogen gezogen umgezogen umzug umziehen|streichen streicht strich gestrichen
kommen kommt kam kamen gekommen|sehen sieht sah gesehen|geben gibt gab gegeben
nehmen nimmt nahm genommen|finden findet fand gefunden
sprechen spricht sprach gesprochen gesprach|fahren fahrt fuhr gefahren
schreiben schreibt schrieb geschrieben|lesen liest las gelesen|essen isst ass gegessen
trinken trinkt trank getrunken|fallen fallt fiel gefallen|helfen hilft half geholfen hilfe
treffen trifft traf getroffen|brechen bricht brach gebrochen|verlieren verliert verlor verloren
vergessen vergisst vergass|gewinnen gewinnt gewann gewonnen|denken denkt dachte gedacht
bringen bringt brachte gebracht|kennen kennt kannte gekannt|wissen weiss wusste gewusst
schlafen schlaft schlief geschlafen|fliegen fliegt flog geflogen flug
beginnen beginnt begann begonnen beginn|steigen steigt stieg gestiegen|haus hauser|buch bucher
mutter mutti mama|vater vati papa|laufen lauft lief gelaufen
rufen ruft rief gerufen angerufen anrufen|verschreiben verschreibt verschrieb verschrieben
essen ass gegessen|tun tut tat getan|aller va vais vont allait alle
avoir ai as a avons ont avait eu|etre est sont etait ete|faire fait fais font faisait
venir vient viens venu venait|prendre prend pris prenait|mettre met mis mettait
voir voit vu voyait|dire dit disait|savoir sait su|pouvoir peut pu
vouloir veut voulu voudrait voulait|ecrire ecrit ecrivait|lire lit lu lisait|boire boit bu
vendre vend vendu vente|ouvrir ouvre ouvert|tenir tient tenu|partir part parti partait depart
ecole ecoles|oeil yeux|travail travaux|ir voy va vamos van fue iba|hacer hace hizo hecho hacia
decir dice dijo dicho|venir viene vino|tener tiene tuvo tenia|poder puede pudo podia
querer quiere quiso queria|saber sabe supo|poner pone puso puesto|ver ve vio visto
dar da dio dado|traer trae trajo|salir sale salio|empezar empieza empezo empezara comenzar
encontrar encuentra encontro|dormir duerme durmio|perder pierde perdio perdido|pedir pide pidio
volver vuelve volvio vuelto|escribir escribio escrito|morir muere murio muerto
romper rompe rompio roto|jugar juega jugo juego|contar cuenta conto
"""

_IRREGULAR_FORMS: dict[str, set[str]] = {}
for _group in _IRREGULAR.replace("\n", "|").split("|"):
    for _word in _group.split():
        _IRREGULAR_FORMS.setdefault(_word, set()).update(_group.split())

_ENDINGS: dict[str, tuple[str, ...]] = {
    "en": (
        "", "s", "es", "ed", "d", "ing", "e", "er", "ers", "or", "ors", "r", "rs", "y", "ies",
        "ied", "ying", "ly", "ion", "ions", "ation", "ations", "ment", "ments", "al", "als",
        "able", "ful", "ness", "ian", "ist", "ists", "iage", "ance", "ence", "ity", "ive", "ier",
        "iest", "est",
    ),
    "de": (
        "", "e", "en", "er", "es", "em", "n", "s", "ern", "t", "te", "ten", "tet", "st", "end",
        "ende", "ung", "ungen", "lich", "erin", "erinnen", "in", "innen", "ens", "heit", "keit",
    ),
    "fr": (
        "", "e", "s", "es", "ent", "er", "ez", "ons", "ee", "ees", "ait", "aient", "ais", "ant",
        "era", "eront", "erai", "ir", "it", "is", "issent", "i", "ie", "u", "ue", "us", "re",
        "ement", "ation", "ations", "eur", "euse", "x", "aux",
    ),
    "es": (
        "", "o", "a", "os", "as", "e", "es", "s", "ar", "er", "ir", "ando", "iendo", "ado", "ada",
        "ados", "adas", "ido", "ida", "idos", "idas", "aba", "aban", "aron", "ieron", "io", "amos",
        "emos", "imos", "an", "en", "ara", "aran", "era", "ira", "aria", "are", "cion", "ciones",
        "ito", "ita", "or", "ora", "dor", "dora", "mente",
    ),
}  # fmt: skip
_STRIPPED = {
    language: sorted((ending for ending in endings if ending), key=len, reverse=True)
    for language, endings in _ENDINGS.items()
}
_DERIVING = frozenset(
    (
        *("ion", "ions", "ation", "ations", "cion", "ciones", "ment", "ments", "ement", "als"),
        *("able", "ful", "ness", "ian", "ist", "ists", "iage", "ance", "ence", "ity", "ive"),
        *("iest", "est", "ier", "ers", "ors", "lich", "heit", "keit", "mente"),
    )
)
"""Endings that make another word rather than another form: only long stems are left without."""
_VOWELS = frozenset("aeiou")


@functools.lru_cache(maxsize=4096)
def forms(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Words that may be other forms of this one, itself first; the vocabulary tells which exist."""
    made = {word: None}
    made |= dict.fromkeys(sorted(_IRREGULAR_FORMS.get(word, ())))
    if len(word) > _SHORTEST_STEM and word.isalpha():
        for language in languages:
            for stem in _stems(word, language):
                made |= dict.fromkeys(stem + ending for ending in _ENDINGS[language])
                if language == "en" and stem[-1] not in _VOWELS and stem[-2] in _VOWELS:
                    double = stem + stem[-1]
                    made |= dict.fromkeys(double + ending for ending in ("ed", "ing", "er", "ers"))
                if language == "de":
                    made |= dict.fromkeys((f"ge{stem}t", f"ge{stem}en"))
    return tuple(made)[:_MOST_FORMS]


def _stems(word: str, language: str) -> list[str]:
    """What may be the stem of the word: without its longest endings, and itself."""
    stems = {word: None}
    plain = word.removeprefix("ge") if language == "de" and word[-1] in "tn" else word
    for ending in _STRIPPED[language]:
        stem = plain.removesuffix(ending)
        least = len(ending) + 2 if ending in _DERIVING else _SHORTEST_STEM
        if stem != plain and len(stem) >= least:
            stems[stem] = None
            if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] and stem[-1] not in "aeious":
                stems[stem[:-1]] = None
            if len(stems) > 3:
                break
    return list(stems)
