/** The server counts characters (code points), the editor UTF-16 units. */

export function toUnits(text: string, characters: number): number {
  let units = 0;
  let left = characters;
  for (const character of text) {
    if (left <= 0) break;
    units += character.length;
    left -= 1;
  }
  return units;
}
