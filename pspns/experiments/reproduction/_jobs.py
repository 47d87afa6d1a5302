"""What the records of all jobs have: on what was measured, with which settings, on which machine."""

from __future__ import annotations

from typing import Any

import torch

from pspns.data.split import Split
from pspns.record import describe_data, describe_machine, describe_versions
from pspns.settings import Settings


def describe_job(name: str, split: Split, settings: Settings, device: torch.device) -> dict[str, Any]:
    return {
        "job": name,
        "data": describe_data(split, settings.data.source),
        "settings": settings.as_dict(),
        "versions": describe_versions(),
        "machine": describe_machine(device),
    }
