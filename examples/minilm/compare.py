"""Evaluates sentences on a running service and compares with this process.

    python examples/minilm/compare.py --address 127.0.0.1:7070 --model minilm-2 --stages 2

Three comparisons: the same microbatches through the same stages here (equal bit for
bit, when both use one thread), the whole batch at once, and what the package
sentence-transformers makes of the sentences.
"""

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent),
                str(Path(__file__).resolve().parents[2] / "python")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from model import (  # noqa: E402
    MODEL_FOLDER,
    SENTENCES,
    Stage,
    embed,
    make_stages,
    read_sentences,
    tokenize,
)

from pipestage import Client  # noqa: E402


def embed_in_parts(stages: list[Stage], tokens: dict[str, np.ndarray],
                   microbatches: int) -> np.ndarray:
    """As the service splits: sizes differ by at most one, larger first."""
    parts = [np.array_split(tokens[name], microbatches)
             for name in ("input_ids", "attention_mask")]
    return np.concatenate([embed(stages, ids, mask) for ids, mask in zip(*parts)])


def sentence_transformer(sentences: list[str]) -> np.ndarray:
    """The embeddings of the package sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(MODEL_FOLDER), device="cpu")
    return model.encode(sentences, batch_size=len(sentences))


def main() -> int:
    """The command line; 1 if the service is not within 1e-5 of the model."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:7070")
    parser.add_argument("--model", default="minilm-2")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    arguments = parser.parse_args()

    # As workers do by default: with other threads, sums round differently.
    torch.set_num_threads(1)
    sentences = read_sentences(arguments.sentences)
    tokens = tokenize(sentences)
    stages = make_stages(arguments.stages)
    whole = embed(stages, **tokens)

    with Client(arguments.address) as client:
        result = client.eval(arguments.model, inputs=tokens,
                             targets={"target": whole}, return_outputs=True,
                             num_microbatches=arguments.microbatches)
    ours = result.outputs["embedding"]
    same = embed_in_parts(stages, tokens, result.ran.num_microbatches)
    package = sentence_transformer(sentences)

    print(f"{len(sentences)} sentences of up to {tokens['input_ids'].shape[1]} tokens "
          f"in {result.ran.num_microbatches} microbatches on {result.ran.workers} "
          f"workers, {result.timings.total_s:.3f} s")
    print(f"mean squared error against one process: {result.loss:.3g}")
    differences = {
        "the same microbatches in one process": same,
        "the whole batch in one process": whole,
        "sentence-transformers": package,
    }
    for what, theirs in differences.items():
        largest = np.abs(ours - theirs).max()
        equal = ", bit for bit equal" if np.array_equal(ours, theirs) else ""
        print(f"largest difference from {what}: {largest:.3g}{equal}")
    show_nearest(sentences, ours)
    return int(any(np.abs(ours - t).max() > 1e-5 for t in differences.values()))


def show_nearest(sentences: list[str], embeddings: np.ndarray, count: int = 3) -> None:
    """Prints the pairs of sentences that are most alike."""
    likeness = np.triu(embeddings @ embeddings.T, k=1)
    print("most alike:")
    for place in np.argsort(likeness, axis=None)[::-1][:count]:
        first, second = np.unravel_index(place, likeness.shape)
        print(f"  {likeness[first, second]:.2f}  {sentences[first]}\n"
              f"        {sentences[second]}")


if __name__ == "__main__":
    sys.exit(main())
