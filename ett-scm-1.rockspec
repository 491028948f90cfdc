-- The Lua library for plain Lua 5.4: `luarocks make` in this folder builds and installs it.
-- Debian's lua-filesystem, lua-cjson and lua-argparse serve, too: `luarocks make --deps-mode none`.
rockspec_format = "3.0"
package, version = "ett", "scm-1"
source = { url = "file://." } -- `luarocks make` builds the tree that holds this file
description = {
  summary = "Estimates how long, how much memory and how much money training of large models takes",
  detailed = "require 'ett' gives the library's table. The program `ett` is in the rock's folder, tree/bin.",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5", "luafilesystem", "lua-cjson", "argparse" }
build = {
  type = "cmake",
  variables = { CMAKE_BUILD_TYPE = "RelWithDebInfo", CMAKE_INSTALL_PREFIX = "$(PREFIX)/tree",
    ETT_ROCK_LUA_FOLDER = "$(LUADIR)" },
}
