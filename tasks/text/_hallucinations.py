"""Phrases from training subtitles that Whisper is known to write over silence, music and noise.

Three kinds; case, punctuation and a number at the end (a year) do not matter:

CREDITS     of subtitlers and broadcasters: nobody says them. The whole text, or its end.
CHANNELS    the end of a video: people say it after other words. The whole text only.
ORDINARY    "thank you": people also say it alone. The whole text, if it is spoken too slowly.

Languages are for readers of this file: all phrases are searched in any text, since the language of
noise is a guess.
Sources: Barański et al. 2025, "Investigation of Whisper ASR Hallucinations Induced by Non-Speech
Audio" (arXiv 2501.11378); github.com/openai/whisper/discussions/928; the models' own output on
noise. The list is far from complete; no other verdict depends on it.
"""

from __future__ import annotations

CREDITS: dict[str, tuple[str, ...]] = {
    "en": (
        "subtitles by the amara org community",
        "transcription by castingwords",
        "transcripts provided by transcription outsourcing llc",
        "transcribed by https otter ai",
        "www mooji org",
        "copyright mooji media ltd",
        "for more information visit www isglobal org",
    ),
    "de": (
        "untertitel der amara org community",
        "untertitelung aufgrund der amara org community",
        "untertitel im auftrag des zdf",
        "untertitelung im auftrag des zdf",
        "untertitel im auftrag des zdf für funk",
        "untertitelung des zdf",
        "untertitel von stephanie geiges",
        "copyright wdr",
    ),
    "es": (
        "subtítulos realizados por la comunidad de amara org",
        "subtítulos por la comunidad de amara org",
        "subtítulos creados por la comunidad de amara org",
    ),
    "fr": (
        "sous titres réalisés para la communauté d'amara org",
        "sous titres réalisés par la communauté d'amara org",
        "sous titres réalisés par les soustitres d'amara org",
        "sous titrage st 501",
        "sous titrage société radio canada",
        "par soustitreur com",
    ),
    "it": (
        "sottotitoli creati dalla comunità amara org",
        "sottotitoli e revisione a cura di qtss",
        "sottotitoli a cura di qtss",
    ),
    "nl": (
        "ondertitels ingediend door de amara org gemeenschap",
        "ondertiteld door de amara org gemeenschap",
    ),
    "pl": ("napisy stworzone przez społeczność amara org",),
    "pt": ("legendas pela comunidade amara org", "legendado pela comunidade amara org"),
    "ru": (
        "субтитры сделал dimatorzok",
        "субтитры создавал dimatorzok",
        "субтитры делал dimatorzok",
        "редактор субтитров а синецкая корректор а егорова",
    ),
    "tr": ("altyazı m k",),
    "ar": ("ترجمة نانسي قنقر",),
    "ko": ("한글자막 by 한효정",),
    "zh": (
        "字幕由amara org社区提供",
        "字幕由amara org社群提供",
        "请不吝点赞订阅转发打赏支持明镜与点点栏目",
        "請不吝點贊訂閱轉發打賞支持明鏡與點點欄目",
        "字幕志愿者李宗盛",
        "字幕志願者李宗盛",
        "字幕志願者楊茜茜",
    ),
}

CHANNELS: dict[str, tuple[str, ...]] = {
    "en": (
        "thanks for watching",
        "thank you for watching",
        "thank you so much for watching",
        "thank you very much for watching",
        "please subscribe",
        "please subscribe to my channel",
        "please like and subscribe",
        "like and subscribe",
        "subscribe to my channel",
        "don't forget to subscribe",
        "don't forget to like and subscribe",
        "see you in the next video",
        "i'll see you in the next video",
    ),
    "de": ("vielen dank fürs zuschauen", "danke fürs zuschauen", "bis zum nächsten video", "swr"),
    "es": (
        "gracias por ver el video",
        "gracias por ver el vídeo",
        "gracias por ver",
        "suscríbete al canal",
        "suscríbete",
    ),
    "fr": ("merci d'avoir regardé cette vidéo", "merci d'avoir regardé", "abonnez vous"),
    "it": ("grazie per aver guardato il video", "grazie per la visione", "iscrivetevi al canale"),
    "nl": ("bedankt voor het kijken",),
    "pl": ("dziękuję za oglądanie", "dzięki za oglądanie", "zdjęcia i montaż"),
    "pt": ("obrigado por assistir", "inscreva se no canal", "transcrição e legendas"),
    "ru": ("спасибо за просмотр", "подписывайтесь на канал", "продолжение следует"),
    "tr": (
        "izlediğiniz için teşekkür ederim",
        "izlediğiniz için teşekkürler",
        "abone olmayı unutmayın",
    ),
    "ar": ("اشتركوا في القناة",),
    "ja": (
        "ご視聴ありがとうございました",
        "ご視聴ありがとうございます",
        "最後までご視聴いただきありがとうございます",
        "チャンネル登録をお願いいたします",
        "チャンネル登録お願いします",
    ),
    "ko": ("시청해주셔서 감사합니다", "시청해 주셔서 감사합니다", "구독과 좋아요 부탁드립니다"),
    "zh": (
        "謝謝觀看",
        "谢谢观看",
        "感謝觀看",
        "感谢观看",
        "謝謝收看",
        "谢谢收看",
        "感謝您的觀看",
        "优优独播剧场yoyo television series exclusive",
        "優優獨播劇場yoyo television series exclusive",
    ),
}

ORDINARY: dict[str, tuple[str, ...]] = {
    "en": (
        "you",
        "thank you",
        "thank you very much",
        "thank you so much",
        "thanks",
        "bye",
        "bye bye",
        "okay",
        "ok",
        "oh",
        "so",
        "the",
        "i'm sorry",
        "yeah",
        "hmm",
        "mm hmm",
        "i don't know",
        "the end",
        "we'll be right back",
        "see you next time",
        "i'm going to go to the next one",
        "music",
        "applause",
        "beep",
    ),
    "de": ("vielen dank", "danke", "tschüss", "bis zum nächsten mal", "musik"),
    "es": ("gracias", "muchas gracias", "hasta la próxima", "música"),
    "fr": ("merci", "merci beaucoup", "au revoir", "musique"),
    "it": ("grazie", "grazie a tutti", "musica"),
    "nl": ("dank u wel", "tot ziens", "muziek"),
    "pl": ("dziękuję", "dziękuję bardzo"),
    "pt": ("obrigado", "obrigada", "tchau"),
    "ru": ("спасибо", "до свидания", "музыка"),
    "tr": ("teşekkür ederim", "teşekkürler"),
    "ar": ("شكرا",),
    "ja": ("ありがとうございました", "ありがとうございます", "おやすみなさい", "はい"),
    "ko": ("감사합니다", "고맙습니다"),
    "zh": ("謝謝", "谢谢", "謝謝大家", "谢谢大家", "再見", "再见", "你"),
}
