"""Card files as editors, shells and people leave them: read alike, or refused with file, line and key."""

import json
import os
import unicodedata
from pathlib import Path

import pytest

from delegation.cards import CardSet, read_cards
from delegation.errors import NotFoundError, UsageError

MARKDOWN = "---\nid: one\nrepo: ../repo\nmodel: m\nverify: pytest -q\n---\nFix the bug.\n\n---\n\nAnd no other.\n"
YAML = "id: one\nrepo: ../repo\nmodel: m\nverify: pytest -q\ntask: |\n  Fix the bug.\n"
JSON = json.dumps({"id": "one", "repo": "../repo", "model": "m", "verify": "pytest -q", "task": "Fix the bug."})


def read(folder: Path) -> CardSet:
    return read_cards(folder, folder.parent / "no-repository")


def written(folder: Path, **files: str | bytes) -> Path:
    """The files, `__` standing for the dot before the ending."""
    cards = folder / "cards"
    cards.mkdir(exist_ok=True)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (cards / name.replace("__", ".")).write_bytes(raw)
    return cards


def problems(found: CardSet) -> list[str]:
    return [problem.text.removeprefix(found.source).lstrip("/") for problem in found.problems]


@pytest.mark.parametrize(("name", "text"), [("a.md", MARKDOWN), ("a.yaml", YAML), ("a.json", JSON), ("a.jsonl", JSON)])
@pytest.mark.parametrize("saved", ["plain", "mark", "utf16", "crlf"])
def test_a_card_is_the_same_however_its_file_was_saved(tmp_path: Path, name: str, text: str, saved: str):
    content = {
        "plain": text.encode(),
        "mark": text.encode("utf-8-sig"),
        "utf16": text.encode("utf-16"),
        "crlf": text.replace("\n", "\r\n").encode(),
    }[saved]
    found = read(written(tmp_path, **{name.replace(".", "__"): content}))

    assert problems(found) == []
    (card,) = found.cards
    assert (card.id, card.fields.model, card.fields.verify) == ("one", "m", "pytest -q")
    assert Path(card.fields.repo) == tmp_path / "cards" / ".." / "repo"
    assert card.fields.task.splitlines()[0] == "Fix the bug."
    assert ("And no other." in card.fields.task) == (name == "a.md")
    assert card.card.queue == "night"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```yaml\n---\nid: one\n---\n```\nbody\n", "a.md:2: has no front matter: a card begins with a"),
        ("\n---\nid: one\n---\nbody\n", "a.md:2: has no front matter"),
        ("<!-- x -->\n---\nid: one\n---\nb\n", "a.md:2: has no front matter"),
        ("Just a text.\n", "a.md:1: has no front matter"),
        ("---\nid: one\nbody\n", "a.md:4: the front matter that begins in line 1 is not closed"),
        ("---\nid: one\nwants:\n\t- a\n---\nbody\n", "a.md:4: is not YAML: found character '\\t' that cannot"),
        ("---\nid: one\ntask: Fix: crash\n---\n", "a.md:3: is not YAML: mapping values are not allowed here: put a"),
        ("---\nid: one\nwants: [a, b\n---\nbody\n", "a.md:3: is not YAML"),
        ("---\nrepo: .\nrepo: ..\n---\nbody\n", "a.md:3: repo stands there twice, first in line 2"),
        ("---\nrepo: .\ntask: x\n---\nbody\n", "a.md:3: task stands in the front matter, and there is a text below it"),
        ("---\nrepo: .\nmodle: x\n---\nbody\n", "a.md:3: modle is an unknown key: did you mean 'model'?"),
        ("---\nrepo: .\nmax_turns: many\n---\nbody\n", "a.md:3: max_turns must be a whole number from 1 to 150, not"),
        ("---\nrepo: .\nbudget: -1\n---\nbody\n", "a.md:3: budget must be a number above 0, not -1"),
        ("---\nrepo: .\nverify: yes\n---\nbody\n", "a.md:3: verify must be a text, not true"),
        ("---\nrepo: .\nwants: a\n---\nbody\n", "a.md:3: wants must be a list of texts"),
        ("---\nrepo: .\nreview_by: 2026-02-30\n---\nx\n", "a.md:3: review_by: this value cannot be read: day is out"),
        ("---\nrepo: &r .\n<<: {model: m}\n---\nx\n", "a.md:3: << takes over keys of elsewhere, which is not read"),
        ("---\nrepo: .\ntags: &t [*t]\n---\nx\n", "a.md:3: tags[0] must be a text, not a list"),
        ("---\nrepo: .\ntags: !!python/name:os.system\n---\nx\n", "a.md:3: tags: is not YAML: could not determine"),
        ("---\nrepo: .\nprompt: x\ntask: y\n---\n", "a.md:4: prompt and task mean the same: give one"),
        ("---\nmodel: m\n---\nbody\n", "a.md:2: repo is missing: name the folder, or say `expects: answer`"),
        ("---\nrepo: .\n---\n \n", "a.md:2: task is missing"),
        ("---\nrepo: ~nosuchuser/x\n---\nb\n", "a.md:2: repo '~nosuchuser/x' names a user who is not known here"),
        ("---\nrepo: .\nbuild_on: true\n---\nb\n", "a.md:2: build_on needs exactly one card in depends_on"),
        ("---\nrepo: .\nprovider_url: http://x\n---\nb\n", "a.md:2: provider_url cannot stand in a card"),
        ("---\nrepo: !!python/object/apply:os.system ['true']\n---\nb\n", "a.md:2: repo: is not YAML: could not"),
        ("---\n- a\n---\nb\n", "a.md:2: a card is made of keys and values"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line_and_nothing_runs_with_defaults(tmp_path: Path, text: str, said: str):
    found = read(written(tmp_path, a__md=text))

    assert found.cards == ()
    (only,) = problems(found)
    assert only.startswith(said), only
    assert found.problems[0].card in ("a", "one")


def test_a_broken_card_is_reported_and_the_others_go_on(tmp_path: Path):
    cards = written(
        tmp_path, a__md=MARKDOWN, b__yaml="title: Fix: crash\n", c__json="{", d__md=b"\xff\xfe\xff",
        e__md=b"---\nid: \xe9",
        f__jsonl='{"prompt": "Why?"}\nnonsense\n\n# a remark\n{"task": "x", "dir": ".", "id": "k", "id": "l"}\n[1]\n',
        g__yaml="- {id: g1, repo: ., task: x}\n- 5\n- {id: g3, repo: ., task: x, lane: moon}\n",
    )  # fmt: skip
    found = read(cards)

    assert [card.id for card in found.cards] == ["one", "f-1", "g1"]
    told = problems(found)
    assert [text.split(" ")[0] for text in told] == [
        "b.yaml:1:", "c.json:1:", "d.md:1:", "e.md:2:", "f.jsonl:2:", "f.jsonl:5:", "f.jsonl:6:",
        "g.yaml:2:", "g.yaml:3:",
    ]  # fmt: skip
    assert "UTF-16" in told[2]
    assert "UTF-8" in told[3]
    assert "lane must be 'local', 'flat_plan', 'metered' or 'subscription_cli', not 'moon'" in told[-1]
    assert (found.problems[-1].key, found.problems[-1].card) == ("lane", "g3")
    assert {"b", "c", "d", "e"} <= found.broken_ids


def test_the_keys_of_batch_jobs_mean_the_same_and_a_job_without_a_folder_is_a_question(tmp_path: Path):
    lines = [
        {"name": "q", "prompt": "Why?", "model": "m", "system_prompt": "Be brief.", "capture_transcript": True},
        {"name": "t", "task": "Why not?"},
        {"name": "a", "task": "Do it", "dir": "sub", "max_iterations": 9, "timeout_seconds": 30, "backend": "b"},
        {"task": "Do it", "working_dir": "/abs"},
    ]
    found = read(written(tmp_path, jobs__jsonl="\n".join(map(json.dumps, lines))))

    assert problems(found) == []
    question, other, agentic, last = (card.fields for card in found.cards)
    for card in (question, other):
        assert (card.expects, card.repo, card.max_turns) == ("answer", str(tmp_path / "no-repository"), 1)
    assert (question.id, question.task, question.system_prompt) == ("q", "Why?", "Be brief.")
    assert (agentic.expects, agentic.max_turns, agentic.timeout_seconds, agentic.backend) == ("change", 9, 30, "b")
    assert agentic.repo == str(tmp_path / "cards" / "sub")
    assert (last.id, last.repo) == ("jobs-4", "/abs")


def test_the_line_of_a_key_in_json_is_the_keys_own(tmp_path: Path):
    text = '[\n {"id": "a", "repo": ".", "task": "say \\"budget\\": twice"},\n {\n  "id": "b",\n  "repo": ".",\n'
    text += '  "task": "x",\n  "budget": "much"\n }\n]\n'
    found = read(written(tmp_path, a__json=text))

    assert [card.line for card in found.cards] == [2]
    assert problems(found) == ["a.json:7: budget must be a number above 0, not 'much'"]


@pytest.mark.parametrize("text", ['{"id": "a", "id": "b"}', '{"priority": NaN}', "[" * 50_000, "", "[]", "null",
                                  '{"priority": ' + "9" * 5000 + "}"])  # fmt: skip
def test_json_that_readers_disagree_on_is_refused(tmp_path: Path, text: str):
    found = read(written(tmp_path, a__json=text))
    assert found.cards == ()
    assert len(found.problems) == 1


def test_ids_that_cannot_be_told_apart_are_refused_with_both_places(tmp_path: Path):
    ids = ["A", "a", "\u00e9", "e\u0301", "only"]
    lines = [json.dumps({"id": each, "repo": ".", "task": "x"}, ensure_ascii=False) for each in ids]
    found = read(written(tmp_path, c__jsonl="\n".join(lines)))

    assert [card.id for card in found.cards] == ["only"]
    told = problems(found)
    assert len(told) == 4
    assert told[0].startswith("c.jsonl:1: id 'A' cannot be told from 'a' in ")
    assert told[0].endswith("c.jsonl:2: rename one")
    assert {problem.key for problem in found.problems} == {"id"}


@pytest.mark.parametrize("name", ["A ", "a\nb", "", "x" * 101, "a\u0000"])
def test_an_id_is_one_that_can_be_written_down(tmp_path: Path, name: str):
    found = read(written(tmp_path, c__json=json.dumps({"id": name, "repo": ".", "task": "x"})))
    assert [problem.key for problem in found.problems] == ["id"]


def test_circles_unknown_names_and_dependants_of_broken_cards(tmp_path: Path):
    wants = {"A": ["C"], "B": ["A"], "C": ["B"], "S": ["S"], "X": ["nosuch"], "ok": [], "after": ["OK"], "on": ["bad"]}
    lines = [json.dumps({"id": k, "repo": ".", "task": "x", "depends_on": v}) for k, v in wants.items()]
    lines.append(json.dumps({"id": "bad", "repo": "."}))
    found = read(written(tmp_path, c__jsonl="\n".join(lines)))

    assert {card.id: card.fields.depends_on for card in found.cards} == {"ok": (), "after": ("ok",), "on": ("bad",)}
    told = {problem.card: problem.message for problem in found.problems}
    assert told["A"] == told["B"] == told["C"] == "depends_on goes in a circle: A -> C -> B -> A"
    assert told["S"] == "depends_on goes in a circle: S -> S"
    assert told["X"] == "depends_on names 'nosuch', and no card is called so"
    assert "bad" in found.broken_ids


def test_a_chain_of_thousands_is_no_circle(tmp_path: Path):
    lines = [
        json.dumps({"id": f"n{n}", "repo": ".", "task": "x", "depends_on": [f"n{n + 1}"] if n < 3000 else []})
        for n in range(3001)
    ]
    found = read(written(tmp_path, c__jsonl="\n".join(lines)))
    assert (len(found.cards), found.problems) == (3001, ())


def test_every_file_of_a_folder_is_a_card_a_problem_or_named_as_passed_over(tmp_path: Path):
    cards = written(tmp_path, z__md=MARKDOWN, README__md="About.\n", b__txt="x", _hidden__md="")
    (cards / ".git").mkdir()
    (cards / "sub").mkdir()
    (cards / "sub" / "zwei ü\n.md").write_text(MARKDOWN.replace("id: one\n", ""), encoding="utf-8")
    (cards / "circle").symlink_to(cards)
    (cards / "gone.md").symlink_to(cards / "nothing")
    (cards / "same.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    (tmp_path / "elsewhere.yaml").write_text(YAML.replace("one", "elsewhere"), encoding="utf-8")
    os.mkfifo(cards / "pipe.md")
    (cards / os.fsdecode(b"odd\xff.json")).write_text(JSON.replace("one", "odd"), encoding="utf-8")
    found = read(cards)

    assert [card.id for card in found.cards] == [
        "odd",
        "elsewhere",
        "one",
        unicodedata.normalize("NFC", "sub/zwei ü\\n"),
    ]
    assert problems(found) == [
        "_hidden.md:1: has no front matter: a card begins with a line of '---'",
        "gone.md: is a link to nothing",
        "pipe.md: is not a regular file",
    ]
    assert found.passed_over == (
        ".git: a hidden folder", "circle: a link to a folder", "README.md: a page about the folder",
        "b.txt: not *.md, *.yaml, *.json or *.jsonl",
    )  # fmt: skip


def test_a_folder_that_cannot_be_read_is_a_problem_and_its_cards_are_not_passed_over_in_silence(tmp_path: Path):
    """Its path is longer than the system takes: what is in it cannot be opened."""
    cards, here = written(tmp_path, a__md=MARKDOWN), Path.cwd()
    os.chdir(cards)
    try:
        for _ in range(20):
            os.mkdir("x" * 250)  # a whole path would be too long
            os.chdir("x" * 250)
        Path("lost.md").write_text(MARKDOWN, encoding="utf-8")
    finally:
        os.chdir(here)
    found = read(cards)
    assert [card.id for card in found.cards] == ["one"]
    (problem,) = found.problems
    assert problem.message == "this folder cannot be read, so none of its cards is done: File name too long"


def test_an_anchor_gives_its_value_wherever_it_is_named_and_many_of_them_take_no_time(tmp_path: Path):
    lines = ["x0: &x0 [z,z,z,z,z,z,z,z,z]", *(f"x{n + 1}: &x{n + 1} [{','.join([f'*x{n}'] * 9)}]" for n in range(12))]
    bomb = "---\nrepo: .\n" + "\n".join(lines) + "\n---\nDo\n"
    found = read(
        written(tmp_path, a__md="---\nrepo: .\nverify: &v 'true'\nsetup: *v\ntags: [*v]\n---\nDo\n", b__md=bomb)
    )
    (card,) = found.cards
    assert (card.fields.verify, card.fields.setup, card.fields.tags) == ("true", "true", ("true",))
    assert {problem.card for problem in found.problems} == {"b"}


def test_a_source_that_holds_no_card_is_refused(tmp_path: Path):
    with pytest.raises(NotFoundError, match="there is no folder or file"):
        read(tmp_path / "nothing")
    with pytest.raises(UsageError, match="holds no card"):
        read(tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(UsageError, match="is no card file"):
        read(tmp_path / "a.txt")
    (tmp_path / "a.md").write_text(MARKDOWN, encoding="utf-8")
    assert [card.id for card in read(tmp_path / "a.md").cards] == ["one"]


def test_what_a_card_is_about_is_its_hash_and_its_rank_is_not(tmp_path: Path):
    def hash_of(text: str) -> str:
        return read(written(tmp_path, a__yaml=text)).cards[0].content_hash

    assert hash_of(YAML) == hash_of(YAML + "priority: 5\ntags: [x]\nreview_by: 2026-12-01\n")
    assert hash_of(YAML) != hash_of(YAML.replace("bug", "bugs"))


def test_what_is_wrong_among_cards_is_told_at_its_own_line_and_a_file_is_told_from_top_to_bottom(tmp_path: Path):
    found = read(
        written(
            tmp_path,
            a__md="---\nrepo: .\n\ndepends_on: [nosuch]\nid: a\n---\nDo\n",
            b__yaml="- id: x\n  repo: .\n  task: x\n  depends_on: [gone]\n- id: y\n  task: x\n",
        )
    )
    assert [(problem.line, problem.key) for problem in found.problems] == [
        (4, "depends_on"),
        (4, "depends_on"),
        (5, "repo"),
    ]


def test_front_matter_that_lacks_its_first_line_is_to_get_it(tmp_path: Path):
    found = read(written(tmp_path, a__md="id: one\nrepo: .\n---\nDo\n"))
    (only,) = problems(found)
    assert only.endswith("put a line of '---' above line 1, or take away what stands before line 3")


def test_a_card_in_toml_is_sent_where_such_cards_are_read(tmp_path: Path):
    cards = written(tmp_path, a__md=MARKDOWN, b__toml="task = 'x'")
    assert read(cards).passed_over == (
        "b.toml: not *.md, *.yaml, *.json or *.jsonl; run it with `delegate run --card FILE`",
    )
    with pytest.raises(UsageError, match=r"is no card file: .*`delegate run --card FILE`"):
        read(cards / "b.toml")
