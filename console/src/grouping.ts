/** Return the items grouped by key, in their order. Node 20 does not have Map.groupBy. */
export function groupBy<K, V>(things: V[], keyOf: (thing: V) => K): Map<K, V[]> {
  const groups = new Map<K, V[]>();
  for (const thing of things) {
    const key = keyOf(thing);
    const group = groups.get(key);
    if (group) group.push(thing);
    else groups.set(key, [thing]);
  }
  return groups;
}
