"""A shell of an agent that makes ever more processes: ended at the bound, told to the model, and the work goes on."""

import json

import psutil
from front import Front

from delegation import steps
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn

SPAWNER = "for i in $(seq 200); do sleep 100 & sleep 0.01; done; wait"  # two hundred sleepers and no more


def test_the_model_is_told_of_the_bound_in_an_ordinary_result_and_finishes_its_work(stacked: Front):
    turns = [Turn(calls=(Call("run_bash", {"command": SPAWNER}),)), Turn(text="It was too much.")]
    seen: list[Request] = []

    def answer(request: Request) -> Turn:
        seen.append(request)
        return turns[min(request.turn, len(turns) - 1)]

    with ScriptedEndpoint(answer) as endpoint:
        stacked.environ["DELEGATE_LOCAL_URL"] = f"{endpoint.base_url}/chat/completions"
        stacked.environ["DELEGATE_LOCAL_MODEL"] = "openai-scripted"
        stacked.environ["DELEGATE_MAX_PROCESSES"] = "30"
        started = stacked.service().submit(stacked.card("Start processes", expects="answer"))
        request = stacked.records.request(started.id)
        tree = steps.make_worktree(request)
        work = steps.work(request, tree)

    assert (work.stop_reason, work.failure_kind, work.answer) == ("answered", None, "It was too much.")
    told = json.dumps(seen[-1].body)
    assert "[no exit code: ended: more than 30 processes at once, which is the limit" in told
    assert [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == tree.root] == []
