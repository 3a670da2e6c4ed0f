"""A pack that is larger than the reader takes is split by folder and file, or refused with the numbers."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegation.errors import WorkFailed
from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.manifest import Manifest, Pack, PackedFile
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import block_tokens, estimated_tokens, line_count, rendered
from delegation.reading.splitting import plan_for


def pack_of(files: dict[str, str]) -> Pack:
    ordered = sorted(files, key=lambda path: path.split("/"))
    packed = tuple(
        PackedFile(path=p, size=len(files[p]), lines=line_count(files[p]), tokens=block_tokens(p, files[p]), sha256="0")
        for p in ordered
    )
    tokens = sum(file.tokens for file in packed)
    manifest = Manifest(files=packed, skipped=(), sha256="0", fence="[0123456789abcdef]", tokens=tokens)
    return Pack(manifest, tuple(files[path] for path in ordered))


def test_what_fits_is_one_request(write):
    packed = pack(write({"a.py": "x\n"}))
    plan = plan_for(packed, max_input_tokens=5000, reserved_tokens=100)
    assert (len(plan.parts), plan.split, plan.heading(0)) == (1, False, "")
    assert rendered(packed, plan.parts[0].pieces) == rendered(packed)
    assert plan_for(packed, max_input_tokens=None).parts == plan.parts or plan.parts[0].tokens > plan.tokens - 101


def test_folders_stay_together_and_each_part_fits():
    packed = pack_of({f"{folder}/{number}.py": "value = 1\n" * 40 for folder in "abc" for number in range(5)})
    whole = sum(file.tokens for file in packed.manifest.files)
    plan = plan_for(packed, max_input_tokens=whole // 3 + 400, reserved_tokens=50)
    assert [{packed.manifest.files[piece.place].path[0] for piece in part.pieces} for part in plan.parts] == [
        {"a"}, {"b"}, {"c"},
    ]  # fmt: skip
    for number, part in enumerate(plan.parts):
        text = rendered(packed, part.pieces, heading=plan.heading(number))
        assert estimated_tokens(text) + 50 <= part.tokens <= whole // 3 + 400
        assert f"part {number + 1} of 3" in text
    assert "3 requests" in str(plan)


def test_a_large_file_is_split_by_lines_that_keep_their_numbers():
    packed = pack_of({"big.py": "".join(f"value_{number} = {number}\n" for number in range(2000)), "s.py": "x\n"})
    plan = plan_for(packed, max_input_tokens=6000)
    texts = [rendered(packed, part.pieces, heading=plan.heading(number)) for number, part in enumerate(plan.parts)]
    assert len(plan.parts) > 2
    assert all(estimated_tokens(text) <= 6000 for text in texts)
    for number in (0, 999, 1999):
        assert sum(f"\n{number + 1}\tvalue_{number} = {number}\n" in text for text in texts) == 1
    assert all("--- file: big.py ---\n" in text for text in texts[:-1])
    assert "(lines 1-" in texts[0]


def test_a_pack_that_may_not_be_split_is_refused_with_the_numbers():
    packed = pack_of({"a.py": "x = 1\n" * 5000})
    with pytest.raises(
        WorkFailed, match=r"1 files are about [\d,]+ tokens and the provider takes 8,000 at once"
    ) as told:
        plan_for(packed, max_input_tokens=8000, when_too_large="refuse")
    assert told.value.kind == "context_overflow"


@pytest.mark.parametrize(
    ("files", "limit", "reserved", "said"),
    [
        ({"min.js": "x" * 100_000}, 8000, 0, "line 1 of min.js alone is about"),
        ({"a.py": "x\n" * 90_000}, 3000, 0, "requests would be needed, 24 are allowed"),
        ({"a.py": "x\n" * 900}, 1000, 990, "go to the question"),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_reason(files, limit, reserved, said):
    with pytest.raises(WorkFailed, match=said) as told:
        plan_for(pack_of(files), max_input_tokens=limit, reserved_tokens=reserved)
    assert told.value.kind == "context_overflow"


_FILES = st.dictionaries(
    st.sampled_from(["a/b/c.py", "a/b/d.py", "a/e.py", "f.py", "g/h/i/j.py", "g/k.py", "z/y.py"]),
    st.integers(0, 400).map(lambda lines: "value = 1\n" * lines),
    min_size=1,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=_FILES, limit=st.integers(900, 4000))
def test_parts_hold_every_line_once_and_in_order(files, limit):
    packed = pack_of(files)
    plan = plan_for(packed, max_input_tokens=limit, max_parts=1000)
    seen = [
        (piece.place, line)
        for part in plan.parts
        for piece in part.pieces
        for line in range(piece.first, (piece.last or packed.manifest.files[piece.place].lines) + 1)
    ]
    wanted = [(place, line) for place, file in enumerate(packed.manifest.files) for line in range(1, file.lines + 1)]
    assert seen == wanted
    assert all(part.tokens <= limit for part in plan.parts)
    assert plan_for(packed, max_input_tokens=limit, max_parts=1000) == plan
    for number, part in enumerate(plan.parts):
        assert estimated_tokens(rendered(packed, part.pieces, heading=plan.heading(number))) <= limit


def test_a_deep_path_is_split_without_recursion():
    deep = "/".join(["d"] * 1500)
    packed = pack_of({f"{deep}/a.py": "x = 1\n" * 300, f"{deep}/b.py": "x = 1\n" * 300})
    assert len(plan_for(packed, max_input_tokens=4500).parts) == 2


def test_the_plan_of_a_real_tree_holds_for_its_text(write):
    root = write({f"src/{number // 10}/{number}.py": f"value = {number}\n" * 50 for number in range(100)})
    packed = pack(root, FileWalker())
    plan = plan_for(packed, max_input_tokens=8_000, reserved_tokens=500)
    for number, part in enumerate(plan.parts):
        assert estimated_tokens(rendered(packed, part.pieces, heading=plan.heading(number))) + 500 <= 8_000
