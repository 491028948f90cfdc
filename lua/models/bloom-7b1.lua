--- BLOOM 7.1B
return {
  source = "arXiv 2211.05100; bigscience/bloom-7b1 (from memory)",
  architecture = "gpt", parameters = 7069016064,
  hyper = { layers = 30, hidden = 4096, heads = 32, vocab = 250880, position = "alibi",
    embedding_norm = true },
}
