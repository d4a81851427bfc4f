# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Finds prose that is hard to read, in documents and in comments, as far as patterns can find it.

Documents are *.md. Comments are those of C++, Python, shell and CMake. Code blocks, code spans and generated figures are
left out."""

import functools
import re

import sources

WORDS_MAX = 35

RULES = {
    "subject": "the sentence begins with a pronoun that stands for a noun: name the subject",
    "long": f"the sentence has more than {WORDS_MAX} words: make two or three of it",
    "private": "a word of ours where the field has one",
}

_BEGINS = re.compile(r"(What|Who|Whom|Whoever|Whatever|Whose|Of|Else|None|Those)\b(?! course)")
_ARTICLE = r"(?:an?|the|this|that|one|each|every|first|second|next|last|another|its|their|no|such|later|new|plain|single)"
_PRIVATE = [
    (rf"\b{_ARTICLE} (?:\w+ )?(?:look|looks)\b(?! (?:at|like|for|up)\b)", "a look: a read, a snapshot"),
    (r"\b(?:the|its|these|those|own|in|of|few|more|such) words\b(?<!other words)", "words: a text, a message"),
    (rf"(?!that share)\b{_ARTICLE} (?:share|gate|journey|lane|reminder|wish)\b(?! of\b)", "share, gate, journey, lane, reminder, wish"),
    (r"\b(?:whoever|whomever)\b", "whoever: the process, the client, the contender that ..."),
    (r"\b(?:is|are|be|was|were) at work\b|\bprograms at work\b|^At work\b", "at work: in production, in use"),
    (r"\bfor nothing\b|\bof (?:no )?use\b", "for nothing, of use: say what happens"),
    (r"\b(?:lets?|letting) (?:it|them|one|that|its?|their|his)?\s*(?:\w+ )?go\b", "lets go: releases"),
    (r"\b(?:gives?|giving|gave|given) (?:it|them|one|its?|their|slots?|the slot|a slot)? ?(?:\w+ )?back\b", "gives back: releases"),
]
_PRIVATE = [(re.compile(pattern, re.IGNORECASE), why) for pattern, why in _PRIVATE]


def paragraphs_of_document(text):
    """(line, text) of each paragraph, list item, heading and cell."""
    found, current, start, in_code, is_generated = [], [], 0, False, False

    def end():
        if current:
            found.append((start, " ".join(current)))
            current.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            end()
        elif in_code or is_generated or line.startswith("<!--") or not line.strip():
            is_generated = (is_generated or line.startswith("<!-- figures:")) and line != "<!-- end of figures -->"
            end()
        elif line.lstrip().startswith("|"):
            end()
            found += [(number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")) if cell.strip(" -:")]
        else:
            if re.match(r"\s*(?:[-*+]|\d+\.|#+|>)\s", line):
                end()
            if not current:
                start = number
            current.append(re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>)\s+", "", line).strip())
    end()
    return found


def paragraphs_of_comments(path, text):
    found = []
    for comment in sources.comments(path, text):
        if re.match(r"(NOLINT|clang-format|SPDX|namespace|!)", comment.text):
            continue
        current, start = [], comment.line
        for number, line in enumerate(comment.text.split("\n"), comment.line):
            bare = line.strip()
            is_item = re.match(r"(?:[-*]|\d+\.|@\w+|\\\w+)\s", bare)
            if not bare or is_item or re.match(r"[-=]{3,}|usage:", bare):
                if current:
                    found.append((start, " ".join(current)))
                current = []
            if bare and not re.match(r"[-=]{3,}|usage:", bare):
                if not current:
                    start = number
                current.append(re.sub(r"^[-*]\s+", "", bare))
        if current:
            found.append((start, " ".join(current)))
    return found


def sentences(paragraph):
    plain = re.sub(r"`[^`]*`", "X", paragraph)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"\*\*|__|https?://\S+", "", plain)
    plain = re.sub(r"\b(e\.g|i\.e|etc|cf|vs|No|approx)\.", r"\1", plain)
    return [each.strip() for each in re.split(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9`])", plain) if each.strip()]


def rules_broken(sentence):
    if sentence.endswith("?"):
        return []
    found = []
    if _BEGINS.match(sentence) and len(sentence.split()) > 3:
        found.append("subject")
    if len(re.findall(r"[A-Za-z0-9][\w'.-]*", sentence)) > WORDS_MAX:
        found.append("long")
    if any(pattern.search(sentence) for pattern, _ in _PRIVATE):
        found.append("private")
    return found


@functools.cache
def findings(path, text):
    found = []
    paragraphs = paragraphs_of_document(text) if path.endswith(".md") else paragraphs_of_comments(path, text)
    for line, paragraph in paragraphs:
        for sentence in sentences(paragraph):
            for rule in rules_broken(sentence):
                found.append(f"{path}:{line}: {rule}: {sentence}")
    return found


def problems(files):
    for path, text in files.items():
        if "/corpus/" not in path and (path.endswith(".md") or sources.kind_of(path, text)):
            yield from findings(path, text)


_DOCUMENT = ("# Title\n<!-- figures: a -->\nOf one that is generated.\n<!-- end of figures -->\nPLACE  It is good.\n"
             "What is it?\n```\nWhat code is here in it.\n```\n| a | CELL |\n")
_CODE = "int a;  // TRAILING\n// One line,\n// and another. PLACE\nchar b[] = \"// Of a string there is\";\n"
GOOD = {
    "a.md": _DOCUMENT, "a.cpp": _CODE,
    "b.md": "\n\n".join(["Who is it for?", "Of course it is.", "A process that waits is first.", " ".join(["word"] * 35) + ".",
                         "Take a look at the example.", "In other words, it is released.", "Processes that share it wait."]),
}
PLANTED = [
    *(("c.md", "", sentence, f"c.md:1: {rule}: ") for sentence, rule in [
        ("What a store tells its answers is kept.", "subject"),
        ("Whoever waits is first.", "subject"),
        ("Whoever waits is first.", "private"),
        ("Of an empty one only assignment is allowed.", "subject"),
        (" ".join(["word"] * 36) + ".", "long"),
        ("The next look shows it.", "private"),
        ("Its words name the key.", "private"),
        ("Requests wait at the gate.", "private"),
        ("Programs at work never do.", "private"),
        ("The user lets it go.", "private"),
        ("It gives the slot back.", "private"),
    ]),
    ("a.md", "PLACE", "Of one that is here.", "a.md:5: subject"),
    ("a.md", "CELL", "Of the table's cell there", "a.md:10: subject"),
    ("a.cpp", "TRAILING", "Of a trailing comment here", "a.cpp:1: subject"),
    ("a.cpp", "PLACE", "What is this now here.", "a.cpp:2: subject"),
]
