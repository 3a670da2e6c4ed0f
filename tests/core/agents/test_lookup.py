"""Which agent a name means."""

import os
from pathlib import Path

import pytest

from delegation.agents.lookup import AgentFile, find_agent, list_agents
from delegation.errors import NotFoundError, UsageError


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    workdir = tmp_path / "work"
    workdir.mkdir()
    return workdir


@pytest.fixture
def own(tmp_path: Path) -> Path:
    own = tmp_path / "own-agents"
    own.mkdir()
    return own


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_first_of_three_places_wins_and_is_reported(workdir: Path, own: Path):
    agent = write(workdir / ".claude/agents/tester.md", "First.")
    skill = write(workdir / ".claude/skills/tester/SKILL.md", "Second.")
    mine = write(own / "tester.md", "Third.")
    for path, text in ((agent, "First."), (skill, "Second."), (mine, "Third.")):
        found = find_agent("tester", workdir, own)
        assert (found.system_prompt, found.source) == (text, str(path))
        path.unlink()
    with pytest.raises(NotFoundError):
        find_agent("tester", workdir, own)


def test_front_matter_is_not_part_of_the_prompt_and_tools_get_our_names(workdir: Path, own: Path):
    facts = "name: reviewer\ndescription: Reads code\ntools: Read, Grep, Glob, Bash, WebFetch\nmodel: sonnet"
    text = f"---\n{facts}\n---\n\nBe strict.\n"
    path = write(own / "reviewer.md", text)
    assert list_agents(workdir, own)[1] == AgentFile(
        "reviewer",
        str(path),
        "Be strict.",
        "Reads code",
        ("read_file", "list_files", "search_files", "run_bash"),
        "sonnet",
    )
    assert find_agent("reviewer", workdir, own).description == "Reads code"


@pytest.mark.parametrize(
    ("tools", "ours"),
    [
        ("tools: [Read, Edit, Write]", ("read_file", "write_file", "edit_file")),
        ("tools: MultiEdit", ("edit_file",)),
        ("tools: run_bash, read_file", ("read_file", "run_bash")),
        ("tools: '*'", None),
        ("description: no tools named", None),
        ("tools:", None),
        ("tools: WebSearch", ()),
        ("allowed-tools: Read, Bash(git log:*, git diff:*)", ("read_file",)),
    ],
)
def test_tools_of_a_file(workdir: Path, own: Path, tools: str, ours: tuple[str, ...] | None):
    write(own / "a.md", f"---\n{tools}\n---\nText.")
    assert find_agent("a", workdir, own).tools == ours


def test_front_matter_that_is_not_yaml_is_read_by_line(workdir: Path, own: Path):
    write(own / "a.md", "---\nname: a\ndescription: Use when: things break\ntools: Read\n---\nText.\n---\nMore.")
    found = find_agent("a", workdir, own)
    assert (found.description, found.tools) == ("Use when: things break", ("read_file",))
    assert found.system_prompt == "Text.\n---\nMore."


def test_a_file_without_front_matter_is_all_prompt(workdir: Path, own: Path):
    write(own / "a.md", "\ufeffJust text.\r\nTwo lines.")
    assert find_agent("a", workdir, own).system_prompt == "Just text.\nTwo lines."


def test_an_empty_agent_is_refused(workdir: Path, own: Path):
    write(own / "a.md", "---\nname: a\n---\n")
    with pytest.raises(UsageError, match="no text"):
        find_agent("a", workdir, own)


@pytest.mark.parametrize(
    "name", ["../secret", "a/b", "/etc/passwd", "..", "", ".hidden", "a..b", "a\0b", "a\n", "x" * 200]
)
def test_a_name_that_is_a_path_is_refused(workdir: Path, own: Path, name: str):
    write(own.parent / "secret.md", "hush")
    with pytest.raises(UsageError, match="not an agent name"):
        find_agent(name, workdir, own)


def test_an_unknown_name_lists_up_to_twenty_that_exist(workdir: Path, own: Path):
    for number in range(25):
        write(own / f"a{number:02}.md", "x")
    with pytest.raises(NotFoundError) as error:
        find_agent("nobody", workdir, own)
    assert "a18, coder" not in str(error.value)
    assert "a19 and 6 more" in str(error.value)


def test_without_a_name_it_is_the_built_in_coder_unless_a_file_has_that_name(workdir: Path, own: Path):
    built_in = find_agent(None, workdir, own)
    assert (built_in.name, built_in.source, built_in.tools) == ("coder", "built-in", None)
    assert find_agent("coder", workdir, own) == built_in
    path = write(workdir / ".claude/agents/coder.md", "Ours.")
    assert find_agent(None, workdir, own).source == str(path)


def test_a_repository_cannot_show_another_file_as_its_agent(workdir: Path, own: Path):
    secret = write(own.parent / "secret", "hush")
    (workdir / ".claude/agents").mkdir(parents=True)
    (workdir / ".claude/agents/x.md").symlink_to(secret)
    os.mkfifo(workdir / ".claude/agents/pipe.md")
    for name in ("x", "pipe"):
        with pytest.raises(NotFoundError):
            find_agent(name, workdir, own)
    assert [agent.name for agent in list_agents(workdir, own)] == ["coder"]


def test_ones_own_agents_may_be_links(workdir: Path, own: Path):
    real = write(own.parent / "dotfiles" / "x.md", "Mine.")
    (own / "x.md").symlink_to(real)
    assert find_agent("x", workdir, own).system_prompt == "Mine."


def test_listing_shows_each_name_once_with_the_one_that_wins(workdir: Path, own: Path):
    write(workdir / ".claude/agents/a.md", "near")
    write(own / "a.md", "far")
    write(workdir / ".claude/skills/s/SKILL.md", "skill")
    assert [(agent.name, agent.text) for agent in list_agents(workdir, own) if agent.source != "built-in"] == [
        ("a", "near"),
        ("s", "skill"),
    ]
    assert [agent.name for agent in list_agents(None, own)] == ["a", "coder"]
