--- BERT base
return {
  source = "arXiv 1810.04805; BertForPreTraining of google-bert/bert-base-uncased (from memory)",
  architecture = "encoder", parameters = 110106428,
  hyper = { layers = 12, hidden = 768, heads = 12, vocab = 30522, max_positions = 512, token_types = 2 },
}
