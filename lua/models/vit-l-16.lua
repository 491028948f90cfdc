--- ViT-L/16 for images of 224 pixels (seq=197)
return {
  source = "arXiv 2010.11929; vit_l_16 of torchvision (from memory)",
  architecture = "encoder", parameters = 304326632,
  hyper = { layers = 24, hidden = 1024, heads = 16, vocab = 1000, patch_size = 16, max_positions = 197 },
}
