"""Errors of estimate-train-time's own models on the hold-out's splits, file by file.

    ett run spec/bench/support/holdout_splits.lua > splits.txt
    python3 spec/bench/holdout_reference.py splits.txt > spec/bench/holdout_reference.tsv

Its method: scikit-learn's RandomForestRegressor or XGBoost's XGBRegressor with the Best_model
and Best_config of {gpu}.csv (300 trees where a file has none), on its predictor inputs and
raw microseconds. Needs python3-sklearn, python3-xgboost, python3-pandas. Not run by any test.
"""
import ast, glob, os, sys
import numpy as np, pandas as pd, xgboost
from sklearn.ensemble import RandomForestRegressor

LINEAR = {"linear1": lambda d, p: (d, 3 * d / p), "linear2": lambda d, p: (d / p, d),
          "linear3": lambda d, p: (d, 4 * d / p), "linear4": lambda d, p: (4 * d / p, d)}

def vocabulary(mp):
    return np.ceil(50257 / (128 * mp)) * 128

def inputs(name, t):
    """The predictor's inputs as golden.json shows them."""
    g = {c: t[c].to_numpy(float) for c in t}
    mp = g.get("mp", 1.0)
    if "shape" in g:
        return [g["shape"], g["nodes"], g["GPUsPerNode"]] if name in ("allreduce", "allreduce_large", "allgather_large") else [g["shape"]]
    if name in LINEAR:
        return [g["b"] * g["l"], *LINEAR[name](g["dim"], mp)]
    if name == "linear_final":
        return [g["b"] * g["l"], g["dim"], vocabulary(mp)]
    if name == "embedding":
        return [g["b"] * g["l"], vocabulary(mp), g["dim"]]
    if name == "baddbmm":
        return [g["b"] * g["h"] / mp, g["l"], g["dim"] / g["h"], g["l"]]
    if name == "bmm":
        return [g["b"] * g["h"] / mp, g["l"], g["l"], g["dim"] / g["h"]]
    if name == "flash_atten":
        return [g["b"], g["l"], g["h"] / mp, g["dim"] / g["h"]]
    if name == "RoPE":
        return [g["l"], g["b"], g["h"] / mp, g["dim"] / g["h"]]
    if name == "fillmask":
        return [g["b"], g["h"] / mp, g["l"], g["dim"]]
    if name == "softmax":
        return [g["b"], g["h"] / mp, g["l"]]
    if name == "ScaledUpperTriangMaskedSoftmax":
        return [g["b"] * g["h"] / mp, g["l"]]
    if name == "gelu":
        return [g["l"], g["b"], 4 * g["dim"] / mp]
    if name.startswith("parallel_cross_entropy"):
        return [g["b"], g["l"], vocabulary(mp)]
    return [g[c] for c in t]  # norms, additions, optimizers: the columns as they are

PASSES = {"F_dur(us)": ("forward", "fwd"), "B_dur(us)": ("backward", "bwd"), "dur(us)": (None, "dur"), "dur": (None, "dur")}
best = {}
for line in open(sys.argv[1]):
    cluster, label, path, split, marks = line.split()
    gpu = os.path.basename(path).split("_")[0]
    folder = os.path.dirname(path)
    if folder not in best:
        best[folder] = {}
        for r in pd.read_csv(f"{folder}/{gpu}.csv").itertuples():
            key = (r.Function, r.Propagation) if hasattr(r, "Propagation") else (r.Function, r.Nodes, r.GPUsPerNode)
            best[folder][key] = (r.Best_model, ast.literal_eval(r.Best_config))
    table = pd.read_csv(path)
    stem = os.path.basename(path)[len(gpu) + 1:-4]
    name, _, topology = stem.partition("_fp16")
    times = [c for c in table if c in PASSES]
    x = np.column_stack(inputs(name if "shape" not in table or not topology else "", table.drop(columns=times)))
    test = np.array([m == "1" for m in marks])
    for column in times:
        y = table[column].to_numpy(float)
        if "shape" in table:
            key = (name, *(int(v) for v in topology.split("_")[1:])) if topology else (name, 0, 0)
            kind = "collective"
        else:
            key, kind = (name, PASSES[column][1]), PASSES[column][0] or "update"
        model, config = best[folder].get(key, ("rforest", {"n_estimators": 300}))
        fitted = (RandomForestRegressor(random_state=0, n_jobs=1, **config) if model == "rforest"
                  else xgboost.XGBRegressor(random_state=0, n_jobs=1, **config)).fit(x[~test], y[~test])
        error = np.mean(np.abs(fitted.predict(x[test]) / y[test] - 1))
        print(cluster, label, kind, split, f"{error:.6g}", sep="\t", flush=True)
