"""Words by which a judge by code tells kinds of sentences apart, in the languages that models think in.

These lists decide only where data cannot: whether a sentence sets things against one another, plans, corrects
itself or speaks to a judge. What is cited, summed or contradicted is never decided by a word.
"""

from __future__ import annotations

import re


def _any(words: str, characters: str = "") -> re.Pattern[str]:
    """A pattern of whole words (separated by blanks; `_` is a blank inside one) or of characters anywhere."""
    spelled = "|".join(re.escape(w).replace("_", r"\s") for w in sorted(words.split(), key=len, reverse=True))
    parts = [rf"(?<!\w)(?:{spelled})(?!\w)"] + ([f"(?:{characters})"] if characters else [])
    return re.compile("|".join(parts), re.IGNORECASE)


CONTRAST = _any(
    "than while whereas vs vs. versus against compared compare comparing comparison unlike instead "
    "rather beats beat "
    "wins prefer preferred better worse best cheaper cheapest dearer pricier costlier lower higher "
    "lighter heavier "
    "bigger smaller larger longer shorter newer older later earlier more less fewer but though although "
    "however "
    "lacks neither outperforms exceeds "
    # German, Dutch
    "als während wohingegen aber statt anstatt lieber besser billiger günstiger teurer sondern "
    "gegenüber dagegen "
    "jedoch obwohl dan terwijl maar goedkoper duurder beter liever "
    # Spanish, Portuguese, Italian, French
    "mientras pero aunque prefiero mejor peor más menos frente mayor menor enquanto mas embora prefiro "
    "melhor pior "
    "mais invece mentre ma preferisco meglio più meno rispetto tandis plutôt préfère mieux moins "
    "contrairement contre "
    "alors_que "
    # Tagalog, Indonesian, Vietnamese, Turkish, Polish, Russian
    "kaysa pero habang samantalang mura lebih daripada sedangkan tetapi tapi hơn nhưng còn daha ama "
    "fakat niż ale "
    "natomiast lepszy tańszy чем но зато лучше дешевле дороже вместо тогда_как",
    "比|而|但|更|却|不过|优于|相比|贵|便宜|より|一方|方が|보다|반면|أرخص|بينما|من_أن|जबकि|लेकिन",
)
CONCLUSION = _any(
    "so therefore hence thus also daher deshalb por_eso así_que entonces portanto donc quindi kaya jadi więc "
    "поэтому значит dus",
    "=>|->|→|⇒|所以|因此|だから|따라서",
)
REJECTION = _any(
    "too over exceeds exceeding above under below wrong no not without lacks out skip skipped excluded "
    "ignored rejected "
    "fails fail discard zu über unter kein keine ohne nicht raus demasiado fuera sin no descartado trop "
    "hors sans pas "
    "écarté troppo fuori senza escluso muito fora sem terlalu tanpa tidak wala walang lampas слишком "
    "без нет не",
    "✗|✘|❌|太|超|没|不符|排除|高すぎ|ない|너무|없",
)
CHOICE = _any(
    "pick choose choosing chosen choice select go_with going_with take taking winner best answer final "
    "recommend so "
    "therefore hence wähle nehme also elijo escojo recomiendo choisis prends scelgo prendo escolho "
    "pipiliin kukunin "
    "pilih выбираю беру",
    "✓|✔|✅|⇒|=>|→|选|推荐|選ぶ|選択|선택",
)
LOWER = _any(
    "cheaper less_expensive costs_less cost_less got_less gets_less paid_less lower_than lower_price "
    "is_less_than billiger günstiger goedkoper más_barato más_barata "
    "más_económico mais_barato mais_barata moins_cher moins_chère meno_caro più_economico mas_mura "
    "lebih_murah "
    "tańszy дешевле rẻ_hơn daha_ucuz",
    "便宜|更低|安い|저렴|أرخص",
)
HIGHER = _any(
    "dearer pricier more_expensive costs_more cost_more costlier got_more gets_more took_more paid_more "
    "received_more "
    "higher_than higher_price is_more_than teurer duurder más_caro más_cara "
    "mais_caro mais_cara plus_cher plus_chère più_caro mas_mahal lebih_mahal droższy дороже daha_pahalı",
    "更贵|更高|高い|비싸",
)
SOONER = _any("earlier before older früher antes avant prima", "更早")
LATER = _any("later after newer später después depois après dopo", "更晚")
NEGATION = _any(
    "not no never none without neither nor lacks lacking isn't doesn't don't hasn't haven't wasn't "
    "weren't aren't "
    "cannot can't nicht kein keine keinen ohne nie sin ningún ninguna ni não sem nenhum pas sans aucun "
    "aucune ne "
    "non senza nessun hindi wala walang tidak bukan tanpa không нет не без nie bez niet geen yok değil "
    "only but "
    "instead rather unlike than too except exceeds above over outside below under",
    "不|没|無|ない|없|안|لا|ليس|नहीं|除",
)
EMPTY = _any(
    "no not none nothing empty zero without didn't doesn't nicht keine kein leer nichts ningún ninguno "
    "ninguna nada "
    "vacío vacía nenhum nenhuma vazio aucun aucune vide rien nessun nessuno vuoto niente wala walang "
    "tidak kosong нет "
    "пусто ничего nie brak geen leeg niets",
    "没|空|无|無|ない|なし|없",
)
RETRACTION = _any(
    "wait sorry correction actually oops scratch mistake misread mixed_up mixing_up i_mean moment "
    "korrektur perdón corrijo espera desculpe pardon erreur scusa teka mali ошибка стоп",
    "不对|错了|等等|更正|いや|違う|아니",
)
PLANNING = _any(
    "will shall let's let_me next now going_to i'll then step first_i proceed calling call finally plan "
    "must need_to "
    "nun jetzt werde zuerst ahora voy luego agora vou maintenant je_vais ensuite adesso ngayon "
    "sekarang",
    "接下来|现在|下面|先|次に|まず|이제|다음",
)
ITEM = _any(
    "one ones another other others first second third fourth last none nothing neither both two three "
    "four five six "
    "several single few some all result results hit hits candidate candidates listing listings option "
    "options item "
    "items product products row rows entry entries transaction transactions it they these those there this "
    # German, Dutch
    "eins eine einer eines erste ersten zweite letzte beide beiden keines keine zwei drei treffer "
    "ergebnis ergebnisse "
    "einträge es sie een eerste tweede laatste geen "
    # Spanish, Portuguese, Italian, French
    "uno una otro otra primero primera segundo segunda último última ambos ambas ninguno ninguna nada "
    "dos tres "
    "resultado resultados um uma outro outra primeiro primeira nenhum nenhuma dois três primo prima "
    "secondo seconda "
    "nessuno due tre risultati un une autre premier première deuxième dernier aucun aucune deux trois "
    "résultat "
    "résultats "
    # Tagalog, Indonesian, Polish, Russian
    "isa yung una ikalawa dalawa tatlo wala lahat satu dua tiga pertama kedua hasil semua jeden "
    "pierwszy drugi wynik "
    "wyniki один одна первый второй последний оба результат результаты",
    "第一|第二|一个|两个|结果|都|这|最後|一つ|二つ|結果|하나|결과",
)
ASSESSMENT = _any(
    "matches match matching fits fit satisfies satisfy meets meet lacks missing suits suitable exceeds "
    "within outside "
    "too cheap cheaper cheapest expensive dear dearest because since only relevant irrelevant wrong "
    "right correct not "
    "isn't doesn't don't aren't wasn't didn't no none nothing empty enough shows offers includes "
    "supports best better "
    "worse closest would_do good small big large exactly same identical similar left came_back returned "
    "looks seems "
    "accessory already are_there there_are there_is there's available found exists "
    # German, Dutch
    "passt passen zu teuer nicht kein keine falsch richtig leer nur besser gut past te duur niet leeg "
    # Spanish, Portuguese, Italian, French
    "encaja cumple demasiado caro cara barato barata vacío vacía solo sólo mejor bien parece não serve "
    "vazio melhor "
    "parece troppo non adatto vuoto meglio trop cher chère pas convient vide seulement mieux "
    # Tagalog, Indonesian, Polish, Russian
    "hindi pwede lampas tama mukhang mahal mura pasok cocok terlalu tidak kosong pasuje za_drogi nie "
    "pusty подходит "
    "слишком дорого не пусто",
    "不|没|太|符合|合适|满足|空|合う|高すぎ|ない|맞|없|너무",
)
TO_A_JUDGE = re.compile(
    _any(
        "the_judge a_judge dear_judge judges grader graders rubric rúbrica rubrica reviewer reviewers "
        "auditor auditors "
        "evaluator evaluators examiner full_marks top_marks all_gates juez jueces juiz avaliador juge "
        "évaluateur "
        "richter gutachter giudice hakim hukom sędzia судья судье судью hakem",
        "评审|评委|裁判|满分|審判|評価者|심사|القاضي|الحكم|न्यायाधीश|निर्णायक",
    ).pattern
    + r"|\bjudge\s?[:,!]|\b(?:grade|score|mark|rating|verdict)\b\W{0,3}(?:\w+\W{1,3}){0,3}?[01][.,]\d(?!\d)",
    re.IGNORECASE,
)
"""A sentence that speaks to a judge is no reasoning about results, whatever data it holds."""
OF_JUDGING = _any(
    "judge judges judged judging judgement judgment grade grades graded grading gate gates votes "
    "verdict score scored "
    "evaluation validation pupil instructions review reviews marks mark award criteria ignore_all "
    "ignore_previous "
    "ignore_the disregard override juicio calificación calificar puntuación nota note_maximale "
    "notation bewertung "
    "prüfer voto máxima marka ocena оценка оценку оценки puan hatol",
    "评分|打分|分数|判定|採点|満点|채점|الدرجة",
)
"""A line that has such a word, and no data, is not taken for a remark on results either."""
TO_A_READER = re.compile(r"(?<!\w)(?:you|your|you're|you've)(?!\w)", re.IGNORECASE)
A_LOG_LINE = re.compile(
    r"(?i)^[\s\[<(*#|]*(?:tool|function|observation|obs|system|user|assistant|recorder|results?_of|output)\b"
    r"[^.\n]{0,40}?"
    r"(?:[:>\]]|returned|returns)|<\|\w+\|>|\breturned:|\breturns:|\(inserted by"
    r"|\b(?:tool|search) results?\b[^.\n]{0,30}:\s*[\[{]"
)
"""A line that is written like a log's: a result in it is no result."""
MONTHS = re.compile(
    r"(?i)(?<!\w)(?:(?P<m01>jan\w*|ene\w*|gen\w*|янв\w*)|(?P<m02>feb\w*|fev\w*|fév\w*|фев\w*)"
    r"|(?P<m03>mar(?:ch|zo|ço|s|\b)|märz|мар\w*)"
    r"|(?P<m04>apr\w*|abr\w*|avr\w*|апр\w*)|(?P<m05>may|mai|mayo|maio|mag\w*|мая|май)|(?P<m06>jun\w*|juin|giu\w*|июн\w*)"
    r"|(?P<m07>jul\w*|juil\w*|lug\w*|июл\w*)|(?P<m08>aug\w*|ago\w*|août|авг\w*)"
    r"|(?P<m09>sep\w*|set\w*|сен\w*)|(?P<m10>oct\w*|okt\w*|out\w*|ott\w*|окт\w*)"
    r"|(?P<m11>nov\w*|ноя\w*)|(?P<m12>dec\w*|dez\w*|dic\w*|déc\w*|дек\w*))(?!\w)|(?<!\d)(?P<cjk>1[0-2]|[1-9])月"
)
A_QUARTER = re.compile(
    r"(?i)(?<!\w)(?:q[1-4]|quarter|quartal|trimest\w+|kwarta\w+|квартал\w*)(?!\w)|季度|四半期"
)


def months(text: str) -> set[int]:
    """The months that a text names, 1 to 12."""
    found = set()
    for match in MONTHS.finditer(text):
        name = match.lastgroup or ""
        found.add(int(match.group("cjk")) if name == "cjk" else int(name[1:]))
    return found
