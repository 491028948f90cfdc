--- BLOOM 176B
return {
  source = "arXiv 2211.05100; bigscience/bloom (from memory)",
  architecture = "gpt", parameters = 176247271424,
  hyper = { layers = 70, hidden = 14336, heads = 112, vocab = 250880, position = "alibi",
    embedding_norm = true },
}
