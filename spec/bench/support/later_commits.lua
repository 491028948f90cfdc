--- Commits after the tree of `first` that add new functions, by capability. All other commits (moves, repairs, speed,
-- messages, plain English, fewer lines) change functions of that tree. Read by ../functions.lua.
return {
  --- The last commit before files moved into rooms.
  first = "abb6c1d",

  --- Commits that restore lost code: they are compared with the commit before the loss.
  restored = { e8614b8 = "6e973ac", ["0037e72"] = "29bb9f8" },

  capabilities = {
    ["kernels of devices, stacks and rates in a step"] = [[824031d ea6f939 0309b55 15486f8 6f4bcd2 c2eabc3 fea200d
      6cb57f4 96f3a91 2fbce30 d8a5c56 8000126 1b7f1fe e8e1efb 29bb9f8 0037e72 c4ab707 006f129 96a1dd9 8d6a3de cc9fbe4
      76a8673 1ce37cb 239a018 4fd078e 1567e33 58ee315 6434a97 b3e62ef 5ecafee 8f24723 74edc9a 0c2dc42 6fc302f 34639ec
      e02eb14 3b005d5 13709fa bcd59d9 e2e1233 c370704 7aa4afe 0726a18 afe391f
      56f716f 94fa7ce 921fe04 485a372 62b265b e5e5bbc ead8963 ec921e1 f72c4ae]],
    ["schedules, plan fields and memory of the software"] = [[6032bfe 1d07029 f56a62d 10b6e25 c85a094 85f57c6 e87c41d
      ad10473 1c8d749 f6688f2 2cfd278 5fc3e43 f82f9b8 47beb0a acf345a a6370e0 359d925 6183de8 2d2ec97 0642dce fba5553
      9be568f d6bb5d1 1e4e98c 32e08ab 79bbac5
      5fa2383 470781b 84affc7 5ec1386]],
    ["networks of tiers, models of communication, unlike nodes"] = [[0548450 a99372b 8cf6e83 3684f7c 59f1644 a187f79
      1b855c4 2eb05ed 5942e41 23adb7b a908a66 b09ac37 7bef26e
      530cc3f]],
    ["public models, mixers, encoders, Megatron-LM and NeMo in and out"] = [[0a8a8fe 5b36cf0 e2f3f0a e8614b8 6e973ac
      c57cf55 74524bb 0d49c02 fd5596a 4d93b8e e6bcb11 cfb4798 204f0de 015a655 b70a57d
      2ce1cd1 4bd924c 7a65737 f04ca0b eeca546 8b29d16 2c01b52]],
    ["the search"] = [[f707bab 61b9207 f851627 0006e70 1ee517b 6ba9ecc d092611 17fa568 a040e49 6196a85 c2f763f
      d5ab91f b9415a1 fb81b70 872b1af 1450b0e 6a0abf3 49603c3 ecc3d42 18e9c0b 95eb196 1845b97 9429e09 ad5c1e4 2d35194
      bd03bb5 cb75636 c47a904 0473f81 5446ea7 12dda55 8b3e3f7 e089857 ee95646 630ab6f 3d601c6 f3939c8 4b7ee1e b7f0e09
      379aa6a 317e2fa cabba81 b17e4e0 47b08e2 50ca097 2e24cfa dfb70a8
      d9a7e23 babcfb8 cdc8838 ab382e4]],
    ["pages of a step, a trace and a search; CSV everywhere"] = [[bb06dad a2f1bbb 5743ac3 15f3e8f 38ae429 b3c4eae
      c00833c b87ccfe e1448fb 685b473 a38d957 c8d82b7 1a28450]],
    ["recorded runs and back: loop, replay, Chakra, more formats and metrics"] = [[3d8d61a 6f4ce37 f706714 83f119c
      3160ef7 a6598f6 3237d1b 4ef922c b71062e 440c3bf 9a275b2 3636911 2185bf0 ad57bf9 6c9ce1a 52e096b 31d1c6a 1483cba
      e9c292b 7129a37]],
    ["PyTorch programs in ett validate"] = "bab743d 7929e2a 2480917 b1b4b20",
    ["sandbox, compiled Lua files, Python, packages"] = [[135c613 c6bfe9b 225c25e 65c638b f1fb869 9f15c43 e6c00e0
      f0facaf 1e6923a
      bf331f5 7668e22]],
  },
}
