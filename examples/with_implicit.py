"""Built positives in `implicit`: alternating least squares and BPR, trained on a matrix of copies.

ALS reads the copies as confidences. BPR reads only which pairs there are, so it sees the injected pairs but not that
agreed ones count more. Neither takes the user weights.
"""

from __future__ import annotations

import numpy as np
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from scipy import sparse
from side_by_side import K, Lists, compare
from threadpoolctl import threadpool_limits

from pspns.built_positives import BuiltPositives


def main() -> None:
    # implicit runs its own threads and asks that BLAS start none beneath them.
    with threadpool_limits(1, "blas"):
        compare(__doc__, {"ALS": als, "BPR": bpr})


def als(positives: BuiltPositives, seen: sparse.csr_matrix) -> Lists:
    model = AlternatingLeastSquares(
        factors=32, regularization=1.0, iterations=10, use_gpu=False, num_threads=1, random_state=0
    )
    return fit_and_rank(model, positives, seen)


def bpr(positives: BuiltPositives, seen: sparse.csr_matrix) -> Lists:
    model = BayesianPersonalizedRanking(
        factors=32, learning_rate=0.05, iterations=50, use_gpu=False, num_threads=1, random_state=0
    )
    return fit_and_rank(model, positives, seen)


def fit_and_rank(
    model: AlternatingLeastSquares | BayesianPersonalizedRanking, positives: BuiltPositives, seen: sparse.csr_matrix
) -> Lists:
    # implicit wants scipy's older class: it refuses a csr_array.
    confidences = sparse.csr_matrix(positives.matrix())
    print(f"fitting {confidences.nnz} pairs, of confidence {confidences.sum():.0f} in all")
    model.fit(confidences, show_progress=False)
    # Filtered by what was observed, not by what was fitted: else the injected items could never be recommended.
    items, _ = model.recommend(np.arange(seen.shape[0]), seen, N=K, filter_already_liked_items=True)
    return items


if __name__ == "__main__":
    main()
