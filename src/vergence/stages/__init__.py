"""Stages: a verb of the command line is a file, with one public function of the verb's name.

Each reads the files of the one before. The command line is made from the signatures of these functions (see
``cli.py``); GLOSSARY holds the meaning of their options.
"""

from vergence.tables import Table

GLOSSARY = {
    "names": "tables to print, such as methods or encoders; all of them when none is named",
    "run": "the run directory",
    "runs": "run directories",
    "resume": "continue the run that is in the directory, exactly where it stopped",
    "overwrite": "replace the run that is in the directory",
    "devices": "processes that share every batch, one on each accelerator or processor",
    "quiet": "no progress, only the result",
    "data": "the data, written as for train",
    "files": "images, a folder of them, or one file of arrays or texts",
    "split": "which part of the data: train, validation, test or all",
    "output": "where to write",
    "target": "a run directory, a file of embeddings (.npy, .npz, .safetensors, .parquet, .csv, .pt), or a folder or "
    "glob of Parquet shards",
    "others": "more runs or files: all are examined, and ranked by every label-free score",
    "layers": "a linear probe after every layer of a run's encoder and projector too",
    "evaluate": "data that an encoder of texts is judged on: pairs:FILE with scores (STS) or without (retrieval), "
    "text:FILE with labels (SentEval); part=dev, folds=10 and column=NAME may follow a comma",
    "protocol": "how linear probes are fitted: lbfgs with a chosen penalty, or saga as Tschannen et al. do it",
    "labels": "a file with a label for each row; for finetune how many labels are used: 1%, 10%, 5-per-class, 200, all",
    "draws": "draws of which samples are labeled",
    "z1": "embeddings of one view of the same samples",
    "z2": "embeddings of another view of the same samples",
    "second_view": "embeddings of a second view of the same samples, row by row",
    "objective": "the objective the loss belongs to (see vergence list objectives)",
    "loss": "a loss, to see where it stands between chance and floor",
    "batch": "samples in the batch that gave the loss, or pairs that a trained bound compares at once",
    "width": "dimensions of the embeddings that gave the loss",
    "drop_nan": "leave out rows that hold NaN or infinity",
    "sets": "sets to compare: names of the default list, letters (ad abc ad:0.25; a crop, b blur, c gray, d color, "
    "e flip) or rows of views with options (simclr:strength=1,flip=false); the default list when none is given",
    "samples": "training samples that are looked at, drawn evenly",
    "steps": "steps of every trial; the best third takes as many more, and the best third of those again",
    "side": "images larger than this side in pixels are reduced to it for the trials",
    "per_class": "samples of each class that theory describes",
    "view_count": "views of each sample, itself among them",
    "resamples": "resamplings of the views, for the interval",
    "graph": "build the augmentation graph of the best set too, and show its spectrum",
    "seed": "seed of the random choices",
    "claims": "numbers (42 62) or sources (tschannen) of claims; all when none is given",
    "training": "include the claims that train encoders: minutes to an hour each",
    "scale": "how large the training claims are run: small is for two cores, paper for a GPU",
    "any_version": "reuse what other versions of the code found before",
    "form": "what to write",
    "processes": "processes that look through shards together, on this machine or for Ray",
    "engine": "who runs them: processes of this machine, or ray (Ray Data, on the cluster at RAY_ADDRESS or here)",
    "format": "wds for tar files as WebDataset reads them, parquet for Parquet files",
    "records": "samples in a shard",
    "ordered": "keep the order of the samples; otherwise they are shuffled first",
    "check": "compare the shards that are there with their checksums, and write nothing",
    "x": "one variable: a file of rows",
    "y": "the other variable: a file of as many rows",
    "bound": "auto, an estimator (neighbors, copula, neural, entropies, table) or a bound (info_nce, nwj, smile, ...)",
    "critic": "auto, bilinear, separable or concat: what a bound is raised by",
    "bits": "say it in bits too",
    "folds": "parts of the data that take turns: the critic never sees the pairs it is judged on",
    "atlas": "also write the map as this Parquet file, which Embedding Atlas opens",
    "folder": "the folder with the runs, or a run",
    "port": "where to listen on this machine; 0 takes any free port",
    "token": "what the address must hold; a new one at every start where none is given",
    "fail_on": "exit with status 1 on any of these verdicts, separated by commas, such as collapse,impossible",
}

STAGES = Table(
    "verb",
    {
        "train": "vergence.stages.train:train",
        "shard": "vergence.stages.shard:shard",
        "embed": "vergence.stages.embed:embed",
        "doctor": "vergence.stages.doctor:doctor",
        "views": "vergence.stages.views:views",
        "information": "vergence.stages.information:information",
        "compare": "vergence.stages.compare:compare",
        "report": "vergence.stages.report:report",
        "reproduce": "vergence.stages.reproduce:reproduce",
        "finetune": "vergence.stages.finetune:finetune",
        "export": "vergence.stages.export:export",
        "watch": "vergence.stages.watch:watch",
        "list": "vergence.stages.list:list",
    },
)
