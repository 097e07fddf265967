"""Losses of tokens -> losses of samples, for the trainer. Knows the fields of a batch; knows nothing of ledgers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def per_sample_loss(token_losses: "Tensor", batch: Mapping[str, Any]) -> "Tensor":
    """Return the mean loss of each sample of a batch, for ``Feed.report``.

    Nothing waits for the device of the losses.

    Args:
        token_losses: Losses as ``cross_entropy(…, reduction="none")`` returns them: 0 where there is no label. One per
            token, or one per token but the last of each row, as with ``labels[:, 1:]``; as [B, T] or flat. For a batch
            without labels, such as one of the robot recipe: losses [B, …].
        batch: Batch of one recipe, with the field ``labels``. A batch of packs or without padding also needs
            ``sequence_ids``, ``cu_seqlens`` and ``sample_rows``.

    Returns:
        The sum of the losses of each sample over the number of its labels, without a graph: one per row, [B], or for
        packs and batches without padding one per sample, in the order of ``sample_rows``. A sample without labels
        has 0.

    Raises:
        ValueError: If the losses do not fit the batch, or a field is missing.

    Examples:
        >>> import penstock
        >>> import torch
        >>> batch = {"labels": torch.tensor([[-100, 5, 6], [-100, 7, -100]])}
        >>> penstock.per_sample_loss(torch.tensor([[2.0, 4.0], [5.0, 0.0]]), batch)
        tensor([3., 5.])
    """
    losses = token_losses.detach().float()
    labels: Tensor | None = batch.get("labels")
    if labels is None:
        return losses.flatten(1).mean(1) if losses.ndim > 1 else losses
    rows, length = labels.shape
    if losses.numel() not in (rows * length, rows * (length - 1)):
        raise ValueError(
            f"token losses of shape {list(losses.shape)} for labels of shape {[rows, length]}: "
            "expected a loss per token, or per token but the last of each row"
        )
    # The first token of a sample has no label, so the loss of a token may stand at the token before it as well.
    by_token = losses.new_zeros(rows, length)
    wide = losses.reshape(rows, -1)
    by_token[:, : wide.shape[1]] = wide
    trained = (labels != -100).to(losses.device)
    if "sequence_ids" not in batch:
        return by_token.sum(1) / trained.sum(1).clamp(min=1)
    missing = [name for name in ("cu_seqlens", "sample_rows") if name not in batch]
    if missing:
        raise ValueError(
            f"the batch has no field {missing[0]!r}, which says where its samples begin; add it to `fields`"
        )
    number = _sample_numbers(batch).to(losses.device)
    samples = len(batch["sample_rows"])
    sums = losses.new_zeros(2, samples + 1)  # the last for padding
    sums[0].index_add_(0, number, by_token.flatten())
    sums[1].index_add_(0, number, trained.flatten().float())
    return sums[0, :samples] / sums[1, :samples].clamp(min=1)


def _sample_numbers(batch: Mapping[str, Any]) -> "Tensor":
    """Return the number of the sample of each token, over all rows; the number of samples for padding."""
    import torch

    starts = batch["cu_seqlens"].long()
    sequence = batch["sequence_ids"].flatten()
    real = sequence[starts[:-1]] > 0  # padding of a row counts as a sequence
    number = torch.where(real, real.cumsum(0) - 1, len(batch["sample_rows"]))
    tokens = torch.arange(len(sequence), device=starts.device)
    return number[torch.searchsorted(starts, tokens, right=True) - 1]
