"""The reasoning judge: evidence in, judgement out."""
