"""ControllerRegistration (API key 70): a controller announces its listeners and features.

Versions: 0-0. ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.CONTROLLER_REGISTRATION, versions=(0, 0), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: ControllerRegistrationRequest, services: Services) -> Deferred[ControllerRegistrationResponse]:
    return services.kraft.submit(lambda core: core.register_controller(request), "registerController")
