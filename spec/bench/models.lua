--- Public models by name and their published counts of parameters.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"

return {
  summary = "public models by name: how many count their published parameters",
  run = function()
    local ett, find, published_count = require "ett", require "ett.base.find", require "published_count"
    local exact, within, agrees, all = 0, 0, 0, 0
    for _, name in ipairs(find.names "lua/models") do
      local published = find.load_file(find.path("lua/models", name)).parameters
      local count = ett.architecture.parameters(ett.model.new(name))
      all = all + 1
      if count == published then exact = exact + 1 end
      if math.abs(count - published) <= 1e-4 * published then within = within + 1 end
      if published_count.agrees(count, published) then agrees = agrees + 1 end
    end
    local function row(measure, value, target)
      return { measure = measure, value = ("%d of %d"):format(value, all), target = target, pass = target and
        value == all }
    end
    return { row("models with the published count, to the last weight", exact),
      row("within 0.01 %", within), row("within 0.01 %, or half of the last stated digit", agrees, "all") }
  end,
}
