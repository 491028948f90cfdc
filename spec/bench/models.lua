--- Public models by name and the counts of parameters that their files state.
-- The counts were written from memory (lua/models/README.md): agreement is no proof against the publication.

return {
  summary = "public models by name: how many have the count that their file states",
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
    return { row("models with the count of their file (from memory), exact", exact),
      row("within 0.01 %", within), row("within 0.01 %, or half of the last stated digit", agrees, "all") }
  end,
}
