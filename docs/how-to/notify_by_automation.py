"""An automation of Prefect that posts every delegation that needs a person, and every night, to a webhook.

`PREFECT_API_URL=... PREFECT_API_AUTH_STRING=... python notify_by_automation.py https://example.org/hook`
"""

import sys

from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.events.actions import CallWebhook
from prefect.events.schemas.automations import EventTrigger, Posture

# An event is named by the state's own name: a refuted delegation is `Refuted`, never `Completed`.
OF_DELEGATIONS = {"Refuted", "No change", "Unverified", "Failed", "Crashed"}
OF_NIGHTS = {"Completed", "Stopped", "Failed", "Crashed"}
PAYLOAD = """{
    "name": {{ flow_run.name | tojson }},
    "state": {{ flow_run.state.name | tojson }},
    "message": {{ flow_run.state.message | tojson }},
    "url": {{ flow_run | ui_url | tojson }}
}"""


def main(url: str) -> None:
    block = Webhook(url=url).save("delegate-flows", overwrite=True)
    for flow, states in (("delegation", OF_DELEGATIONS), ("night_shift", OF_NIGHTS)):
        trigger = EventTrigger(
            expect={f"prefect.flow-run.{state}" for state in states},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": flow},
            posture=Posture.Reactive,
            threshold=1,
            within=0,
        )
        action = CallWebhook(block_document_id=block, payload=PAYLOAD)
        Automation(name=f"tell of {flow}", trigger=trigger, actions=[action]).create()


if __name__ == "__main__":
    main(sys.argv[1])
