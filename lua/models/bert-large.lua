--- BERT large
return {
  source = "arXiv 1810.04805; BertForPreTraining of google-bert/bert-large-uncased (from memory)",
  architecture = "encoder", parameters = 336226108,
  hyper = { layers = 24, hidden = 1024, heads = 16, vocab = 30522, max_positions = 512, token_types = 2 },
}
