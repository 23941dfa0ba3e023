class ScriptedModel:
    provider="scripted"; context_tokens=0
    def __init__(self, fn, name="scripted:one"): self.fn=fn; self.requests=[]; self.name=name
    async def reply(self, request, heard):
        self.requests.append(request); return self.fn(request)
    def estimate(self, request):
        from perdure.model.budget import Cost
        return Cost()
    async def close(self): pass
