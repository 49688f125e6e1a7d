"""Five everyday sentences in each of many languages, with the voices that say them.

The first languages are ones that Whisper knows, the others (`UNKNOWN`) ones that it does not.
"""

from __future__ import annotations

from tests.bench.verdict_sentences import CLOSE

#: By language: espeak-ng's voice, Festival's (or None), sentences.
SENTENCES: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    **{code: (CLOSE[code][0], {"ru": "msu_ru_nsh_clunits"}.get(code), CLOSE[code][1][:5])
       for code in ("en", "ru", "uk", "no", "da", "pt")},
    "de": ("de", None, (
        "Gestern gingen wir auf den Markt und kauften Äpfel und Brot.",
        "Der Zug in die Stadt fährt um sieben Uhr morgens ab.",
        "Meine Großmutter wohnte in einem kleinen Haus am Fluss.",
        "Können Sie mir sagen, wo die nächste Apotheke ist?",
        "Im Winter wird es früh dunkel, und die Kinder bleiben zu Hause.",
    )),
    "fr": ("fr", None, (
        "Hier, nous sommes allés au marché et nous avons acheté des pommes et du pain.",
        "Le train pour la ville part à sept heures du matin.",
        "Ma grand-mère habitait une petite maison près de la rivière.",
        "Pouvez-vous me dire où se trouve la pharmacie la plus proche ?",
        "En hiver, il fait nuit tôt et les enfants restent à la maison.",
    )),
    "it": ("it", "lp_diphone", (
        "Ieri siamo andati al mercato e abbiamo comprato mele e pane.",
        "Il treno per la città parte alle sette del mattino.",
        "Mia nonna viveva in una piccola casa vicino al fiume.",
        "Può dirmi dove si trova la farmacia più vicina?",
        "In inverno fa buio presto e i bambini restano a casa.",
    )),
    "es": ("es", None, (
        "Ayer fuimos al mercado y compramos manzanas y pan.",
        "El tren para la ciudad sale a las siete de la mañana.",
        "Mi abuela vivía en una casa pequeña cerca del río.",
        "¿Puede decirme dónde está la farmacia más cercana?",
        "En invierno oscurece temprano y los niños se quedan en casa.",
    )),
    "ca": ("ca", "upc_ca_ona_hts", (
        "Ahir vam anar al mercat i vam comprar pomes i pa.",
        "El tren cap a la ciutat surt a les set del matí.",
        "La meva àvia vivia en una casa petita a prop del riu.",
        "Em pot dir on és la farmàcia més propera?",
        "A l'hivern es fa fosc d'hora i els nens es queden a casa.",
    )),
    "nl": ("nl", None, (
        "Gisteren gingen we naar de markt en kochten we appels en brood.",
        "De trein naar de stad vertrekt om zeven uur 's ochtends.",
        "Mijn grootmoeder woonde in een klein huis bij de rivier.",
        "Kunt u mij zeggen waar de dichtstbijzijnde apotheek is?",
        "In de winter wordt het vroeg donker en blijven de kinderen thuis.",
    )),
    "sv": ("sv", None, (
        "I går gick vi till torget och köpte äpplen och bröd.",
        "Tåget till staden går klockan sju på morgonen.",
        "Min mormor bodde i ett litet hus vid ån.",
        "Kan du säga mig var närmaste apotek ligger?",
        "På vintern blir det tidigt mörkt och barnen stannar hemma.",
    )),
    "fi": ("fi", "suo_fi_lj_diphone", (
        "Eilen kävimme torilla ja ostimme omenoita ja leipää.",
        "Juna kaupunkiin lähtee kello seitsemän aamulla.",
        "Isoäitini asui pienessä talossa joen rannalla.",
        "Voitteko sanoa, missä on lähin apteekki?",
        "Talvella tulee aikaisin pimeä, ja lapset jäävät kotiin.",
    )),
    "pl": ("pl", None, (
        "Wczoraj poszliśmy na targ i kupiliśmy jabłka i chleb.",
        "Pociąg do miasta odjeżdża o siódmej rano.",
        "Moja babcia mieszkała w małym domu nad rzeką.",
        "Czy może mi pan powiedzieć, gdzie jest najbliższa apteka?",
        "Zimą wcześnie robi się ciemno i dzieci zostają w domu.",
    )),
    "cs": ("cs", "czech_ph", (
        "Včera jsme šli na trh a koupili jsme jablka a chléb.",
        "Vlak do města odjíždí v sedm hodin ráno.",
        "Moje babička bydlela v malém domě u řeky.",
        "Můžete mi říct, kde je nejbližší lékárna?",
        "V zimě se brzy stmívá a děti zůstávají doma.",
    )),
    "hu": ("hu", None, (
        "Tegnap elmentünk a piacra, és almát meg kenyeret vettünk.",
        "A vonat a városba reggel hétkor indul.",
        "A nagymamám egy kis házban lakott a folyó mellett.",
        "Meg tudná mondani, hol van a legközelebbi gyógyszertár?",
        "Télen korán sötétedik, és a gyerekek otthon maradnak.",
    )),
    "ro": ("ro", None, (
        "Ieri am fost la piață și am cumpărat mere și pâine.",
        "Trenul spre oraș pleacă la ora șapte dimineața.",
        "Bunica mea locuia într-o casă mică lângă râu.",
        "Îmi puteți spune unde este cea mai apropiată farmacie?",
        "Iarna se întunecă devreme și copiii rămân acasă.",
    )),
    "tr": ("tr", None, (
        "Dün pazara gittik, elma ve ekmek aldık.",
        "Şehre giden tren sabah saat yedide kalkıyor.",
        "Büyükannem nehrin yanında küçük bir evde yaşardı.",
        "En yakın eczanenin nerede olduğunu söyler misiniz?",
        "Kışın hava erken kararır ve çocuklar evde kalır.",
    )),
    "el": ("el", None, (
        "Χθες πήγαμε στην αγορά και αγοράσαμε μήλα και ψωμί.",
        "Το τρένο για την πόλη φεύγει στις επτά το πρωί.",
        "Η γιαγιά μου έμενε σε ένα μικρό σπίτι κοντά στο ποτάμι.",
        "Μπορείτε να μου πείτε πού είναι το πιο κοντινό φαρμακείο;",
        "Τον χειμώνα νυχτώνει νωρίς και τα παιδιά μένουν στο σπίτι.",
    )),
    "hi": ("hi", None, (
        "कल हम बाज़ार गए और हमने सेब और रोटी खरीदी।",
        "शहर जाने वाली रेलगाड़ी सुबह सात बजे चलती है।",
        "मेरी दादी नदी के पास एक छोटे घर में रहती थीं।",
        "क्या आप बता सकते हैं कि सबसे नज़दीकी दवा की दुकान कहाँ है?",
        "सर्दियों में जल्दी अंधेरा हो जाता है और बच्चे घर पर रहते हैं।",
    )),
    "id": ("id", None, (
        "Kemarin kami pergi ke pasar dan membeli apel dan roti.",
        "Kereta ke kota berangkat pukul tujuh pagi.",
        "Nenek saya tinggal di rumah kecil di dekat sungai.",
        "Bisakah Anda memberi tahu saya di mana apotek terdekat?",
        "Di musim dingin hari cepat gelap dan anak-anak tinggal di rumah.",
    )),
    "ar": ("ar", None, (
        "ذهبنا أمس إلى السوق واشترينا التفاح والخبز.",
        "يغادر القطار إلى المدينة في الساعة السابعة صباحا.",
        "كانت جدتي تعيش في بيت صغير بالقرب من النهر.",
        "هل يمكنك أن تخبرني أين تقع أقرب صيدلية؟",
        "في الشتاء يحل الظلام مبكرا ويبقى الأطفال في البيت.",
    )),
    # Not among Whisper's languages.
    "eo": ("eo", None, (
        "Hieraŭ ni iris al la bazaro kaj aĉetis pomojn kaj panon.",
        "La trajno al la urbo foriras je la sepa matene.",
        "Mia avino loĝis en malgranda domo apud la rivero.",
        "Ĉu vi povas diri al mi, kie estas la plej proksima apoteko?",
        "Vintre frue mallumiĝas, kaj la infanoj restas hejme.",
    )),
    "ga": ("ga", None, (
        "Inné chuamar go dtí an margadh agus cheannaíomar úlla agus arán.",
        "Fágann an traein go dtí an chathair ar a seacht ar maidin.",
        "Bhí mo sheanmháthair ina cónaí i dteach beag in aice na habhann.",
        "An féidir leat a rá liom cá bhfuil an cógaslann is gaire?",
        "Sa gheimhreadh éiríonn sé dorcha go luath agus fanann na páistí sa bhaile.",
    )),
    "ky": ("ky", None, (
        "Кечээ биз базарга барып, алма жана нан сатып алдык.",
        "Шаарга кеткен поезд эртең менен саат жетиде жөнөйт.",
        "Чоң энем суунун жанындагы кичинекей үйдө жашачу.",
        "Эң жакын дарыкана кайда экенин айта аласызбы?",
        "Кышында эрте караңгы кирет, балдар үйдө калышат.",
    )),
    "gn": ("gn", None, (
        "Kuehe rohókuri mercado-pe ha rojogua mansána ha mbujape.",
        "Pe tren ohóva távape osẽ las siete pyhareve.",
        "Che jarýi oiko vaʼekue peteĩ óga michĩme ysyry rembeʼýpe.",
        "Ikatúpa ere chéve moõpa oĩ pe farmacia hiʼag̃uivéva?",
        "Araroʼýpe pyaʼe pytũ ha mitãnguéra opyta hógape.",
    )),
}  # fmt: skip
UNKNOWN = ("eo", "ga", "ky", "gn")
