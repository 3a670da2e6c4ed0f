"""Which model answered: the gateway's word first, and names only where they cannot mean the same."""

import pytest

from delegation.models.answered import answering_model, fallback_note
from delegation.request import Endpoint

BIFROST = "x-bifrost-routing-info-"


def endpoint(model: str, alias: str | None = None) -> Endpoint:
    return Endpoint(
        alias=alias or model, base_url="http://127.0.0.1:9/v1", format="openai_chat", model=model, bucket="b",
        quota_pool="q", lane="metered",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("deepseek-v4-flash", "deepseek/deepseek-v4-flash"),
        ("claude-sonnet-4-6", "claude-sonnet-4-6-20260115"),
        ("gpt-6-luna", "gpt-6-luna-2026-08-01"),
        ("glm-coding-plan", "glm-5.2"),
        ("local-qwen-3-6-35b", "Qwen3.6-35B-A3B-Q4_K_M"),
        ("local-scripted", "/models/some.gguf"),
        ("qwen-3-8-max", "qwen3.8-max-thinking"),
        ("whatever", "something-else"),
    ],
)
def test_another_spelling_of_the_same_model_is_no_fallback(requested: str, answered: str):
    assert fallback_note(endpoint(requested), answered, {}) is None


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("glm-coding-plan", "deepseek-v4-flash"),
        ("deepseek-v4-flash", "deepseek-v4-pro"),
        ("claude-sonnet-4-6", "claude-haiku-4-6"),
        ("glm-5.2", "z-ai/glm-4.5-air"),
    ],
)
def test_another_family_tier_or_version_is_a_fallback(requested: str, answered: str):
    note = fallback_note(endpoint(requested, "mine"), answered, {})
    assert note == f"answered_by: {answered} (requested mine)"


def test_an_alias_that_the_catalogue_maps_is_compared_by_its_name_on_the_wire():
    assert fallback_note(endpoint("glm-5.2", "qwen-like-name"), "glm-5.2", {}) is None


def test_a_gateway_that_says_where_the_request_went_is_believed():
    routed = {f"{BIFROST}provider": "p", f"{BIFROST}model": "deepseek-v4-flash"}
    assert fallback_note(endpoint("glm-coding-plan"), "deepseek-v4-flash", routed) is None
    fell_back = {**routed, f"{BIFROST}is-fallback": "true"}
    assert fallback_note(endpoint("fast"), "fast-2", fell_back) == "answered_by: fast-2 (requested fast)"
    assert fallback_note(endpoint("claude-x"), "gpt-6", {"x-litellm-attempted-fallbacks": "0"}) is None
    assert fallback_note(endpoint("a"), "b", {"x-litellm-attempted-fallbacks": "1"}) == "answered_by: b (requested a)"


def test_the_real_model_comes_from_the_headers_before_the_answer():
    assert answering_model({}, "said") == "said"
    assert answering_model({f"{BIFROST}model": "routed"}, "said") == "routed"
    assert (
        answering_model({f"{BIFROST}model": "alias", f"{BIFROST}alias-model-id": "vendor/real"}, "said")
        == "vendor/real"
    )
    assert answering_model({f"{BIFROST}model": "m", f"{BIFROST}server-side-fallback-model": "f"}, None) == "f"
