"""UnregisterBroker (API key 64): takes a broker's registration away (KIP-631).

Versions: 0. ACL: ALTER on Cluster. Quota: controller mutations.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.UNREGISTER_BROKER, versions=(0, 0), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: UnregisterBrokerRequest, services: Services) -> Deferred[UnregisterBrokerResponse]:
    return services.kraft.submit(lambda core: core.unregister_broker(request), "unregisterBroker")
