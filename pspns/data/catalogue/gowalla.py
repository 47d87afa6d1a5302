"""Gowalla: 29,858 people and the 40,981 places they checked in at, 810,128 train and 217,242 test pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pspns.data.catalogue._about import About
from pspns.data.catalogue._local import Counts, LocalDataset

_WHOLE = Counts(users=29_858, items=40_981, parts=(810_128, 0, 217_242))


@dataclass(frozen=True, kw_only=True)
class Gowalla(LocalDataset):
    about: ClassVar[About] = About(
        title="Gowalla",
        size=_WHOLE.words(),
        origin="provided",
        source="take train.txt and test.txt of the Gowalla data that the authors of LightGCN publish beside their code",
        terms="Check-ins that people made public on Gowalla. For research use.",
        citation=(
            "Eunjoon Cho, Seth A. Myers, Jure Leskovec. 2011. Friendship and Mobility: User Movement in Location-Based "
            "Social Networks. In Proceedings of KDD '11, 1082–1090. doi:10.1145/2020408.2020579. The parts: Xiangnan "
            "He, Kuan Deng, Xiang Wang, Yan Li, Yongdong Zhang, Meng Wang. 2020. LightGCN: Simplifying and Powering "
            "Graph Convolution Network for Recommendation. In Proceedings of SIGIR '20. doi:10.1145/3397271.3401063"
        ),
    )
    known: ClassVar[tuple[Counts, ...]] = (_WHOLE,)


COMPONENT = Gowalla
