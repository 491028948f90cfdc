--- ViT-B/16 for images of 224 pixels (seq=197)
return {
  source = "arXiv 2010.11929; vit_b_16 of torchvision (from memory)",
  architecture = "encoder", parameters = 86567656,
  hyper = { layers = 12, hidden = 768, heads = 12, vocab = 1000, patch_size = 16, max_positions = 197 },
}
