"""BrokerRegistration (API key 62): a broker announces itself; the answer is its epoch.

Versions: 0-4. ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.BROKER_REGISTRATION, versions=(0, 4), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: BrokerRegistrationRequest, services: Services) -> Deferred[BrokerRegistrationResponse]:
    return services.kraft.submit(lambda core: core.register_broker(request), "registerBroker")
